package replay

import (
	"cmp"
	"slices"
	"strings"
)

// keyTally counts the keys of the traffic, and the denials of each. Keys that
// were denied are kept whole.
type keyTally struct {
	seen   *keySet
	denied map[string]*KeyCount
}

func newKeyTally() *keyTally {
	return &keyTally{seen: newKeySet(), denied: map[string]*KeyCount{}}
}

// see counts a key that was not seen before.
func (k *keyTally) see(key string) { k.seen.add(key) }

// deny counts a denial. When it is the first of the key, show says how a
// summary writes the key. The key may be part of a greater text: it is
// copied.
func (k *keyTally) deny(key string, show func(string) string) {
	if known := k.denied[key]; known != nil {
		known.Denied++
		return
	}
	key = strings.Clone(key)
	k.denied[key] = &KeyCount{Key: show(key), Denied: 1}
}

// KeyCount is a key and how often it was denied.
type KeyCount struct {
	Key    string `json:"key"`
	Denied int64  `json:"denied"`
}

// topKeys is how many of the most denied keys a summary names.
const topKeys = 10

// top returns the keys that were denied most. Of equals, the first in order
// of text.
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

// maskKey keeps enough of a credential to recognise it by: a third, at most 8
// characters.
func maskKey(text string) string {
	letters := []rune(text)
	return string(letters[:min(len(letters)/3, 8)]) + "…"
}
