package replay

import (
	"cmp"
	"hash/maphash"
	"strings"
)

// keyTally counts distinct keys and the denials of each key.
type keyTally struct {
	hasher

	seen   *keyCounter
	denied *ranking[string] // with the form of a key in a report
}

func newKeyTally(h hasher, fails *panics) *keyTally {
	return &keyTally{hasher: h, seen: newKeyCounter(fails), denied: newRanking[string]()}
}

// see counts the key with this hash, under the seed of k.seen, if it is new.
func (k *keyTally) see(hash uint64) { k.seen.addHash(hash) }

// deny counts a denial of a key. show returns the form of the key for a report.
func (k *keyTally) deny(key string, show func(string) string) {
	if text, first := k.denied.add(k.of(identityText{text: key})); first {
		*text = strings.Clone(show(key)) // it may be part of a larger text
	}
}

// KeyCount is a key and the number of its denials.
type KeyCount struct {
	Key    string `json:"key"`
	Denied int64  `json:"denied"`
}

// top returns the n keys with the most denials, ordered by text among equals.
func (k *keyTally) top(n int) (counts []KeyCount) {
	all := k.denied.sorted(func(a, b *ranked[string]) int { return cmp.Compare(a.of, b.of) })
	for _, one := range all[:min(n, len(all))] {
		counts = append(counts, KeyCount{one.of, int64(one.count)})
	}
	return counts
}

// SecretAttribute reports whether the values of an attribute are credentials.
func SecretAttribute(name string) bool {
	switch name {
	case "api_key", "header:authorization", "header:proxy-authorization", "header:x-api-key", "header:cookie":
		return true
	}
	return false
}

// secretBy reports whether the values of the attribute that a limit counts by are credentials. The
// key of an event is its API key if it has no other.
func secretBy(by string) bool { return by == "key" || SecretAttribute(by) }

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
