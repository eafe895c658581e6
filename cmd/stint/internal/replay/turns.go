package replay

import "sync"

// turns does two steps of work on batches of values in several goroutines. The first step,
// prepare, is done for several batches at once, each by another worker. The second one, settle, is
// done for one batch after the other, in their order, by the worker that prepared it: so what it
// prepared is still in the caches of its processor.
//
// The goroutines start with the first full batch, and end in finish. If the work panics, the replay
// fails, and all further values are dropped.
type turns[T any] struct {
	prepare func(worker int, batch []T)
	settle  func(worker int)
	fails   *panics
	batch   []T
	next    int // the worker of the batch
	queues  [workers]chan []T
	turn    [workers]chan struct{} // has a value when the worker may settle
	spare   chan []T               // nil: the goroutines do not run
	running sync.WaitGroup
}

const (
	workers        = 2 // while one settles, the other one prepares
	batchesWaiting = 2 // for each worker
)

// newTurns returns turns for batches of the given size.
func newTurns[T any](size int, fails *panics, prepare func(worker int, batch []T), settle func(worker int)) *turns[T] {
	return &turns[T]{prepare: prepare, settle: settle, fails: fails, batch: make([]T, 0, size)}
}

// add adds a copy of a value.
func (t *turns[T]) add(value *T) {
	if len(t.batch) == cap(t.batch) {
		t.hand()
	}
	t.batch = append(t.batch, *value)
}

// hand gives the batch to the next worker, and takes an empty one.
func (t *turns[T]) hand() {
	if t.spare == nil {
		t.start()
	}
	size := cap(t.batch)
	t.queues[t.next] <- t.batch
	t.next = (t.next + 1) % workers
	select {
	case t.batch = <-t.spare:
	default:
		t.batch = make([]T, 0, size)
	}
}

func (t *turns[T]) start() {
	t.next = 0
	t.spare = make(chan []T, workers*(batchesWaiting+1)+1)
	for i := range workers {
		t.queues[i], t.turn[i] = make(chan []T, batchesWaiting), make(chan struct{}, 1)
	}
	t.turn[0] <- struct{}{}
	for i := range workers {
		t.running.Go(func() { t.run(i) })
	}
}

func (t *turns[T]) run(worker int) {
	for batch := range t.queues[worker] {
		t.try(func() { t.prepare(worker, batch) })
		<-t.turn[worker]
		t.try(func() { t.settle(worker) })
		t.turn[(worker+1)%workers] <- struct{}{}
		clear(batch)         // lets go of what the values hold
		t.spare <- batch[:0] // never full: it has room for all batches
	}
}

// try does a step, unless the replay has failed.
func (t *turns[T]) try(step func()) {
	defer t.fails.catch()
	if !t.fails.any() {
		step()
	}
}

// finish returns when all values have been settled. It may be called again.
func (t *turns[T]) finish() {
	if t.spare != nil {
		for i := range workers {
			close(t.queues[i])
		}
		t.running.Wait()
		t.spare = nil
	}
	t.try(func() { t.prepare(0, t.batch) })
	t.try(func() { t.settle(0) })
	t.batch = t.batch[:0]
}
