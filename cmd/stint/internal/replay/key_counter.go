package replay

import "hash/maphash"

// keyCounter is a keySet that a goroutine of its own fills. A set of millions of
// keys is larger than the caches of the processor, so an addition waits for
// memory; a replay decides the next events meanwhile. The keys travel as hashes,
// in batches.
type keyCounter struct {
	set   *keySet
	batch []uint64
	full  chan []uint64 // nil: the goroutine does not run
	spare chan []uint64
	done  chan struct{}
}

const (
	counterBatch  = 4096 // keys
	queuedBatches = 4
)

func newKeyCounter() *keyCounter {
	return &keyCounter{set: newKeySet(), batch: make([]uint64, 0, counterBatch)}
}

// add adds a key.
func (c *keyCounter) add(key string) {
	c.batch = append(c.batch, maphash.String(c.set.seed, key))
	if len(c.batch) == cap(c.batch) {
		c.hand()
	}
}

// hand gives the batch to the goroutine, and takes an empty one.
func (c *keyCounter) hand() {
	if c.full == nil {
		c.full, c.spare, c.done = make(chan []uint64, queuedBatches), make(chan []uint64, queuedBatches+1), make(chan struct{})
		go c.fill(c.full)
	}
	c.full <- c.batch
	select {
	case c.batch = <-c.spare:
	default:
		c.batch = make([]uint64, 0, counterBatch)
	}
}

func (c *keyCounter) fill(full <-chan []uint64) {
	defer close(c.done)
	for batch := range full {
		for _, hash := range batch {
			c.set.addHash(hash)
		}
		select {
		case c.spare <- batch[:0]:
		default:
		}
	}
}

// total ends the goroutine, and returns the number of distinct keys.
func (c *keyCounter) total() int {
	if c.full != nil {
		close(c.full)
		<-c.done
		c.full = nil
	}
	for _, hash := range c.batch {
		c.set.addHash(hash)
	}
	c.batch = c.batch[:0]
	return c.set.count
}
