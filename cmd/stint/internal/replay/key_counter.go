package replay

import "hash/maphash"

// keyCounter is a keySet that a goroutine of its own fills. A set of millions of
// keys is larger than the caches of the processor, so an addition waits for
// memory. The keys travel as hashes.
type keyCounter struct {
	set    *keySet
	hashes *background[uint64]
}

// hashBatch is the number of hashes in a batch.
const hashBatch = 4096

func newKeyCounter(fails *panics) *keyCounter {
	set := newKeySet()
	return &keyCounter{set, newBackground(hashBatch, fails, set.addHashes)}
}

// add adds a key.
func (c *keyCounter) add(key string) { c.addHash(maphash.String(c.set.seed, key)) }

// addHash adds the key with this hash.
func (c *keyCounter) addHash(hash uint64) { *c.hashes.next() = hash }

// total ends the goroutine, and returns the number of distinct keys.
func (c *keyCounter) total() int {
	c.hashes.finish()
	return c.set.count
}
