package bulkhead

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Bulkhead holds the places of one dependency. Make one with [New]; the zero value has no
// places and refuses every call. It is safe for concurrent use.
type Bulkhead struct {
	options Options
	name    string
	set     *Set // nil if the bulkhead is not in a set

	mu    sync.Mutex
	usage Usage // guarded by mu, as all below; Limit and Waiting are set by Usage
	queue queue

	users int // callers that hold or want a place; guarded by the set's lock
}

// New returns a bulkhead with all its places free. The error lists every invalid option.
func New(o Options) (*Bulkhead, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	return &Bulkhead{options: o}, nil
}

// Slot is a place that a caller holds until it releases it.
type Slot struct {
	bulkhead *Bulkhead
	released atomic.Bool
}

// Release passes the place to the caller that has waited longest, or frees it. Only the
// first call has an effect. The zero Slot holds no place.
func (s *Slot) Release() {
	if s.bulkhead != nil && !s.released.Swap(true) {
		s.bulkhead.release()
		s.bulkhead.set.leave(s.bulkhead)
	}
}

// Acquire takes a place, and waits for one if necessary and allowed. The error is a
// [*RefusedError], or the context's error. With an error no place is held, even if one
// was granted at the moment when the context ended.
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

// TryAcquire takes a place if one is free, without waiting.
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

// enter takes a free place or, if there is none, joins the queue.
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

// takeLocked takes a free place. While one is free nobody waits: release passes a place
// to a waiter before it frees it.
func (b *Bulkhead) takeLocked() bool {
	if b.usage.InUse >= b.options.Limit {
		return false
	}
	b.usage.InUse++
	b.usage.Admitted++
	b.usage.MaxInUse = max(b.usage.MaxInUse, b.usage.InUse)
	return true
}

// wait waits for a place to be granted. If it returns an error, the waiter is out of the
// queue and holds no place.
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
		b.countAdmitted() // the place may have been granted just as MaxWait ended
		return nil
	}
	if !b.leave(w) {
		b.release()
	}
	return b.gaveUp(ctx)
}

// patience returns a channel that receives when MaxWait is over, and a function that
// stops its timer.
func (b *Bulkhead) patience() (over <-chan time.Time, stop func()) {
	if b.options.MaxWait == 0 {
		return nil, func() {}
	}
	t := time.NewTimer(b.options.MaxWait)
	return t.C, func() { t.Stop() }
}

// leave removes a waiter from the queue and reports whether it was there. If not, it has
// been granted a place.
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
