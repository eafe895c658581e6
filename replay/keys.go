package replay

import (
	"cmp"
	"hash/maphash"
	"slices"
	"strings"
)

// keyTally counts the keys of the traffic, and the denials of each.
//
// Which keys were seen is remembered by 64 bits each, so that a summary costs
// no more than one look into memory per event: among ten million keys, the
// chance that two are taken for one is less than one in a hundred thousand.
// Keys that were denied are kept whole.
type keyTally struct {
	seed   maphash.Seed
	seen   []uint64 // hashes in open addressing; 0: free
	count  int
	denied map[string]*KeyCount
}

func newKeyTally() *keyTally {
	return &keyTally{seed: maphash.MakeSeed(), seen: make([]uint64, 1024), denied: map[string]*KeyCount{}}
}

// see counts a key that was not seen before.
func (k *keyTally) see(key string) {
	if k.insert(max(1, maphash.String(k.seed, key))) {
		k.count++
		if k.count > len(k.seen)/4*3 {
			k.grow()
		}
	}
}

// insert reports whether the hash is new.
func (k *keyTally) insert(hash uint64) bool {
	mask := uint64(len(k.seen) - 1)
	for i := hash & mask; ; i = (i + 1) & mask {
		switch k.seen[i] {
		case hash:
			return false
		case 0:
			k.seen[i] = hash
			return true
		}
	}
}

func (k *keyTally) grow() {
	old := k.seen
	k.seen = make([]uint64, 2*len(old))
	for _, hash := range old {
		if hash != 0 {
			k.insert(hash)
		}
	}
}

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
