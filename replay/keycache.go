package replay

import (
	"hash/maphash"
	"strings"
)

// keyCache gives equal keys one copy of their text, as long as it remembers
// them. The copy is small and often used: events that wait hold no part of
// their lines, and the text of a busy key is near when it is decided.
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
