package bulkhead

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stintdev/stint/resilience/internal/check"
)

// Options configures a [Bulkhead]. Limit is required; with nothing else set, no caller
// waits.
type Options struct {
	// Limit is how many calls may run at once. At least 1; it has no default.
	Limit int

	// Queue is how many callers may wait for a place. Zero: no caller waits.
	Queue int

	// MaxWait bounds the wait of a caller, in addition to its context's deadline. Zero:
	// no bound but the context's.
	MaxWait time.Duration
}

func (o *Options) check() error {
	return errors.Join(
		check.Unless(o.Limit >= 1, "bulkhead: Limit: is %d; use at least 1", o.Limit),
		check.Unless(o.Queue >= 0, "bulkhead: Queue: is %d, which is below 0", o.Queue),
		check.Unless(o.MaxWait >= 0, "bulkhead: MaxWait: is %v, which is below 0", o.MaxWait),
	)
}

// Bulkhead holds the places of one dependency. Make one with [New]; the zero value has no
// places and refuses every call, and a nil *Bulkhead lets every call through. It is safe
// for concurrent use.
type Bulkhead struct {
	options Options
	name    string
	set     *Set // nil if the bulkhead is not in a set

	mu    sync.Mutex
	usage Usage     // guarded by mu, as all below; Limit and Waiting are set by Usage
	queue list.List // of chan struct{}, closed when the place is granted; the longest waiting first

	users int // callers that hold or want a place; guarded by the set's lock
}

// Usage is the current use of a bulkhead and its counts since it was made.
type Usage struct {
	Limit      int
	InUse      int // places held
	Waiting    int // callers in the queue
	MaxInUse   int // the maximum of InUse so far
	MaxWaiting int // the maximum of Waiting so far

	Admitted int64 // calls that got a place
	Full     int64 // refused: no place was free, and the queue was full
	Waited   int64 // callers refused because MaxWait was over
	GaveUp   int64 // callers whose context had ended
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
// first call has an effect. The zero Slot and a nil *Slot hold no place.
func (s *Slot) Release() {
	if s != nil && s.bulkhead != nil && !s.released.Swap(true) {
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
	if b == nil {
		return &Slot{}, nil
	}
	waiter, err := b.enter()
	if err == nil && waiter != nil {
		err = b.wait(ctx, waiter)
	}
	if err != nil {
		return nil, err
	}
	return &Slot{bulkhead: b}, nil
}

// TryAcquire takes a place if one is free, without waiting.
func (b *Bulkhead) TryAcquire() (*Slot, bool) {
	if b == nil {
		return &Slot{}, true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.takeLocked() {
		b.usage.Full++
		return nil, false
	}
	return &Slot{bulkhead: b}, true
}

// Do calls f with a place, and releases it when f returns or panics. Without a place it
// returns the error of [Bulkhead.Acquire] and does not call f.
func Do[T any](ctx context.Context, b *Bulkhead, f func(context.Context) (T, error)) (v T, err error) {
	s, err := b.Acquire(ctx)
	if err != nil {
		return v, err
	}
	defer s.Release()
	return f(ctx)
}

// Do is the function [Do] for a call that returns only an error.
func (b *Bulkhead) Do(ctx context.Context, f func(context.Context) error) error {
	s, err := b.Acquire(ctx)
	if err != nil {
		return err
	}
	defer s.Release()
	return f(ctx)
}

// Usage returns the current usage.
func (b *Bulkhead) Usage() Usage {
	if b == nil {
		return Usage{}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	u := b.usage
	u.Limit, u.Waiting = b.options.Limit, b.queue.Len()
	return u
}

// enter takes a free place or, if there is none, joins the queue.
func (b *Bulkhead) enter() (waiter *list.Element, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.takeLocked() {
		return nil, nil //nolint:nilnil // there is nothing to wait for
	}
	if b.queue.Len() >= b.options.Queue {
		b.usage.Full++
		return nil, b.refusal(ErrFull, 0)
	}
	waiter = b.queue.PushBack(make(chan struct{}))
	b.usage.MaxWaiting = max(b.usage.MaxWaiting, b.queue.Len())
	return waiter, nil
}

// takeLocked takes a free place. While a place is free, no caller waits: release passes a
// place to a waiter before it frees it.
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
func (b *Bulkhead) wait(ctx context.Context, waiter *list.Element) error {
	start := time.Now()
	over, stop := b.patience()
	defer stop()
	select {
	case <-waiter.Value.(chan struct{}): //nolint:forcetypeassert // the queue holds nothing else
	case <-over:
		if b.leave(waiter) {
			return b.countWaited(time.Since(start))
		}
	case <-ctx.Done():
	}
	if ctx.Err() == nil {
		b.countAdmitted() // the place may have been granted just as MaxWait ended
		return nil
	}
	if !b.leave(waiter) {
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

// leave removes a waiter from the queue. It returns false if the waiter was granted a
// place before.
func (b *Bulkhead) leave(waiter *list.Element) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	before := b.queue.Len()
	b.queue.Remove(waiter) // does nothing if the waiter is out of the queue
	return b.queue.Len() < before
}

func (b *Bulkhead) release() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if longest := b.queue.Front(); longest != nil {
		close(b.queue.Remove(longest).(chan struct{})) //nolint:forcetypeassert // the queue holds nothing else
		return
	}
	b.usage.InUse--
}

// countAdmitted counts a caller that was granted a place while it waited. The count is
// late, because a caller that has given up meanwhile does not take the place.
func (b *Bulkhead) countAdmitted() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.usage.Admitted++
}

func (b *Bulkhead) countWaited(d time.Duration) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.usage.Waited++
	return b.refusal(ErrWaited, d)
}

func (b *Bulkhead) gaveUp(ctx context.Context) error {
	if b == nil {
		return ctx.Err()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.usage.GaveUp++
	return ctx.Err()
}

func (b *Bulkhead) refusal(why error, waited time.Duration) *RefusedError {
	return &RefusedError{Name: b.name, Reason: why, Limit: b.options.Limit, Waited: waited}
}

// ErrRefused is what every [*RefusedError] is to [errors.Is].
var ErrRefused = errors.New("the bulkhead refused the call")

// The reasons of a [*RefusedError]; [errors.Is] finds them in it.
var (
	ErrFull   = errors.New("bulkhead is full")                      // the queue is full too
	ErrWaited = errors.New("bulkhead was full for too long")        // MaxWait is over
	ErrNames  = errors.New("bulkhead set has no room for the name") // all names of the set are in use
)

// RefusedError reports that there was no place for a call. A caller whose context has
// ended gets the context's error instead.
type RefusedError struct {
	Name   string // the name in a Set; "" outside of one
	Reason error  // ErrFull, ErrWaited or ErrNames
	Limit  int
	Waited time.Duration // 0 unless it waited
}

// Error returns the name, the reason and the limit.
func (e *RefusedError) Error() string {
	text := fmt.Sprintf("%v (limit %d, waited %v)", e.Reason, e.Limit, e.Waited)
	if e.Name == "" {
		return text
	}
	return fmt.Sprintf("%q: %s", e.Name, text)
}

// Is reports whether the target is [ErrRefused].
func (e *RefusedError) Is(target error) bool { return target == ErrRefused }

// Unwrap returns the reason.
func (e *RefusedError) Unwrap() error { return e.Reason }

// Retryable returns false: package retry does not repeat a call that the bulkhead
// refused.
func (e *RefusedError) Retryable() bool { return false }
