package guard

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/stintdev/stint/resilience/breaker"
)

// visit is the context of one call to the store: the caller's context with a deadline.
// It makes a timer only when the store calls Done or Deadline. A store that answers
// from memory calls neither, and a timer costs more than such a call. The deadline
// counts from the beginning of the call in either case.
type visit struct {
	context.Context //nolint:containedctx // it is one

	call   breaker.Call
	within time.Duration
	timed  atomic.Pointer[timed]
}

// begun is the context of a check that began before the guard was called.
type begun interface{ Begun() time.Time }

// within returns how much of the deadline a check has left, and at least half of the
// deadline: a timeout after less time would say nothing of the store.
func (s *Store) within(ctx context.Context) time.Duration {
	b, ok := ctx.(begun)
	if !ok {
		return s.options.Deadline
	}
	return max(s.options.Deadline/2, s.options.Deadline-time.Since(b.Begun()))
}

// timed is a context that was made because the store asked.
type timed struct {
	context.Context //nolint:containedctx // it is one

	cancel context.CancelFunc
}

// timer returns the context of the standard library that keeps the deadline.
func (v *visit) timer() *timed {
	if t := v.timed.Load(); t != nil {
		return t
	}
	t := &timed{}
	t.Context, t.cancel = context.WithTimeout(v.Context, v.within-v.call.Elapsed())
	if !v.timed.CompareAndSwap(nil, t) {
		t.cancel()
	}
	return v.timed.Load()
}

// end releases what the visit holds.
func (v *visit) end() {
	if t := v.timed.Load(); t != nil {
		t.cancel()
	}
}

// Deadline is the caller's or the guard's, whichever is sooner.
func (v *visit) Deadline() (time.Time, bool) { return v.timer().Deadline() }

// Done is closed at the deadline, or when the caller gives up.
func (v *visit) Done() <-chan struct{} { return v.timer().Done() }

// Err needs no timer as long as there is none.
func (v *visit) Err() error {
	if v.timed.Load() != nil || v.call.Elapsed() >= v.within {
		return v.timer().Err()
	}
	return v.Context.Err()
}

// Value finds the standard library's own context, once there is one, so that
// contexts derived from this one hang on it directly.
func (v *visit) Value(key any) any {
	if t := v.timed.Load(); t != nil {
		return t.Value(key)
	}
	return v.Context.Value(key)
}
