package replay

import (
	"hash/maphash"
	"strings"
)

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
