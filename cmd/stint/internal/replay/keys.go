package replay

import (
	"cmp"
	"hash/maphash"
	"slices"
	"strings"
)

// keyTally counts distinct keys and the denials of each key. It keeps the text
// of denied keys.
type keyTally struct {
	seen   *keyCounter
	denied map[string]*KeyCount
}

func newKeyTally() *keyTally {
	return &keyTally{seen: newKeyCounter(), denied: map[string]*KeyCount{}}
}

// see counts a key if it is new.
func (k *keyTally) see(key string) { k.seen.add(key) }

// deny counts a denial of a key. On the first denial, show returns the form of
// the key for a summary. The key is copied, because it may be part of a larger
// text.
func (k *keyTally) deny(key string, show func(string) string) {
	if known := k.denied[key]; known != nil {
		known.Denied++
		return
	}
	key = strings.Clone(key)
	k.denied[key] = &KeyCount{Key: show(key), Denied: 1}
}

// KeyCount is a key and the number of its denials.
type KeyCount struct {
	Key    string `json:"key"`
	Denied int64  `json:"denied"`
}

// topKeys is the number of keys in a summary.
const topKeys = 10

// top returns the keys with the most denials, ordered by text among equals.
func (k *keyTally) top() []KeyCount {
	counts := make([]KeyCount, 0, len(k.denied))
	for _, c := range k.denied {
		counts = append(counts, *c)
	}
	slices.SortFunc(counts, func(a, b KeyCount) int {
		return cmp.Or(cmp.Compare(b.Denied, a.Denied), cmp.Compare(a.Key, b.Key))
	})
	return slices.Clone(counts[:min(len(counts), topKeys)])
}

// secretAttribute reports whether the values of an attribute are credentials.
func secretAttribute(name string) bool {
	return name == "api_key" || name == "header:authorization" || name == "header:x-api-key"
}

// maskKey returns the first third of a credential, at most 8 characters, which
// is enough to recognise it.
func maskKey(text string) string {
	letters := []rune(text)
	return string(letters[:min(len(letters)/3, 8)]) + "…"
}

// keyCache interns keys: equal keys share one copy of their text while the
// cache holds it. Waiting events then do not keep their lines in memory, and
// the text of a busy key stays in the CPU cache.
type keyCache struct {
	seed maphash.Seed
	kept [4096]string
}

func newKeyCache() *keyCache { return &keyCache{seed: maphash.MakeSeed()} }

func (c *keyCache) own(key string) string {
	slot := &c.kept[maphash.String(c.seed, key)%uint64(len(c.kept))]
	if *slot != key {
		*slot = strings.Clone(key)
	}
	return *slot
}
