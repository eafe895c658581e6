package bulkhead

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Bulkhead holds the places of one dependency. Make one with [New]: the
// zero value has none, and refuses. It is safe for use by many goroutines at
// once.
type Bulkhead struct {
	options Options
	name    string
	set     *Set // nil outside of one

	mu    sync.Mutex
	usage Usage // guarded by mu, as all below; Limit and Waiting are filled in when asked
	queue queue

	users int // callers that hold or want a place; guarded by the set's lock
}

// New returns a bulkhead with all its places free. The error names every
// option that cannot be.
func New(o Options) (*Bulkhead, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	return &Bulkhead{options: o}, nil
}

// Slot is one place that a caller holds until it releases it.
type Slot struct {
	bulkhead *Bulkhead
	released atomic.Bool
}

// Release gives the place to the caller that waits longest, or frees it. Only
// the first call does. The zero Slot holds none.
func (s *Slot) Release() {
	if s.bulkhead != nil && !s.released.Swap(true) {
		s.bulkhead.release()
		s.bulkhead.set.leave(s.bulkhead)
	}
}

// Acquire takes a place, waiting for one if it must and may. The error is a
// [*RefusedError], or the context's: then no place is held, also where one
// came free in that moment.
func (b *Bulkhead) Acquire(ctx context.Context) (*Slot, error) {
	if ctx.Err() != nil {
		return nil, b.gaveUp(ctx)
	}
	w, err := b.enter()
	if err == nil && w != nil {
		err = b.wait(ctx, w)
	}
	if err != nil {
		return nil, err
	}
	return &Slot{bulkhead: b}, nil
}

// TryAcquire takes a place if one is free and nobody waits.
func (b *Bulkhead) TryAcquire() (*Slot, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.takeLocked() {
		b.usage.Full++
		return nil, false
	}
	return &Slot{bulkhead: b}, true
}

// Do calls f with a place, and releases it when f returns or panics. Without a
// place it returns the error of [Bulkhead.Acquire], and does not call f.
func (b *Bulkhead) Do(ctx context.Context, f func(context.Context) error) error {
	s, err := b.Acquire(ctx)
	if err != nil {
		return err
	}
	defer s.Release()
	return f(ctx)
}

// enter takes a place or, if there is none, a place in the queue.
func (b *Bulkhead) enter() (*waiter, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.takeLocked() {
		return nil, nil //nolint:nilnil // nobody to wait for, nothing wrong
	}
	if b.queue.length >= b.options.Queue {
		b.usage.Full++
		return nil, b.refusal(ErrFull, 0)
	}
	w := &waiter{granted: make(chan struct{})}
	b.queue.push(w)
	b.usage.MaxWaiting = max(b.usage.MaxWaiting, b.queue.length)
	return w, nil
}

// takeLocked takes a free place. While one is free, nobody waits: release
// hands places on before it frees them.
func (b *Bulkhead) takeLocked() bool {
	if b.usage.InUse >= b.options.Limit {
		return false
	}
	b.usage.InUse++
	b.usage.Admitted++
	b.usage.MaxInUse = max(b.usage.MaxInUse, b.usage.InUse)
	return true
}

// wait waits for a place to be granted. It returns without one in no other
// state than out of the queue.
func (b *Bulkhead) wait(ctx context.Context, w *waiter) error {
	start := time.Now()
	over, stop := b.patience()
	defer stop()
	select {
	case <-w.granted:
	case <-over:
		if b.leave(w) {
			return b.countWaited(time.Since(start))
		}
	case <-ctx.Done():
	}
	if ctx.Err() == nil {
		b.countAdmitted() // if only in the moment in which it was over
		return nil
	}
	if !b.leave(w) {
		b.release()
	}
	return b.gaveUp(ctx)
}

// patience returns what says that a caller has waited for long enough.
func (b *Bulkhead) patience() (over <-chan time.Time, stop func()) {
	if b.options.MaxWait == 0 {
		return nil, func() {}
	}
	t := time.NewTimer(b.options.MaxWait)
	return t.C, func() { t.Stop() }
}

// leave takes a waiter out of the queue, and reports whether it was there: if
// not, it was granted a place.
func (b *Bulkhead) leave(w *waiter) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	waits := w.queued
	if waits {
		b.queue.remove(w)
	}
	return waits
}

func (b *Bulkhead) release() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if w := b.queue.pop(); w != nil {
		close(w.granted)
		return
	}
	b.usage.InUse--
}
