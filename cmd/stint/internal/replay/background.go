package replay

// background does a part of the work on events in a goroutine of its own, in the order of the
// events. The replay decides the next events meanwhile. Values travel in batches.
//
// The goroutine starts with the first full batch, and ends in finish. If the work panics, the replay
// fails, and all further values are dropped.
type background[T any] struct {
	work  func([]T)
	fails *panics
	batch []T
	full  chan []T // nil: the goroutine does not run
	spare chan []T
	done  chan struct{}
}

const queuedBatches = 4

// newBackground returns a background that passes batches of the given size to work.
func newBackground[T any](size int, fails *panics, work func(batch []T)) *background[T] {
	return &background[T]{work: work, fails: fails, batch: make([]T, 0, size)}
}

// next returns the place of the next value, which the caller sets before its next call. The
// place holds an earlier value, whose memory may be used again, or the zero value.
func (b *background[T]) next() *T {
	if len(b.batch) == cap(b.batch) {
		b.hand()
	}
	b.batch = b.batch[:len(b.batch)+1]
	return &b.batch[len(b.batch)-1]
}

// hand gives the batch to the goroutine, and takes an empty one.
func (b *background[T]) hand() {
	if b.full == nil {
		b.full, b.spare, b.done = make(chan []T, queuedBatches), make(chan []T, queuedBatches+1), make(chan struct{})
		go b.run()
	}
	size := cap(b.batch)
	b.full <- b.batch
	select {
	case b.batch = <-b.spare:
	default:
		b.batch = make([]T, 0, size)
	}
}

func (b *background[T]) run() {
	defer close(b.done)
	for batch := range b.full {
		b.try(batch)
		b.spare <- batch[:0] // never full: at most queuedBatches+1 batches are not in the queue
	}
}

// try works on a batch, unless the replay has failed.
func (b *background[T]) try(batch []T) {
	defer b.fails.catch()
	if !b.fails.any() {
		b.work(batch)
	}
}

// finish returns when all values have been worked on. It may be called again.
func (b *background[T]) finish() {
	if b.full != nil {
		close(b.full)
		<-b.done
		b.full = nil
	}
	b.try(b.batch)
	b.batch = b.batch[:0]
}
