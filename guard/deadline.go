package guard

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/stintdev/stint/resilience/breaker"
	"github.com/stintdev/stint/storekit"
)

// callContext is the context of one call to the store: the caller's, with a deadline.
// It makes a timer only when the store calls Done. A store that answers from memory does
// not, nor does one that reads from the network with the deadline, and a timer costs more
// than a call of the former. The deadline counts from the beginning of the call in any case.
type callContext struct {
	context.Context //nolint:containedctx // callContext is itself a context

	call   breaker.Call
	within time.Duration
	timed  atomic.Pointer[timed]
}

// within returns how much of the deadline a check has left, and at least half of the
// deadline: a timeout after less time would say nothing of the store.
func (s *Store) within(ctx context.Context) time.Duration {
	begun, ok := storekit.Begun(ctx)
	if !ok {
		return s.options.Deadline
	}
	return max(s.options.Deadline/2, s.options.Deadline-time.Since(begun))
}

// timed is a context that was made because the store asked.
type timed struct {
	context.Context //nolint:containedctx // the context that it wraps

	cancel context.CancelFunc
}

// timer returns the context of the standard library that keeps the deadline.
func (c *callContext) timer() *timed {
	if t := c.timed.Load(); t != nil {
		return t
	}
	t := &timed{}
	t.Context, t.cancel = context.WithTimeout(c.Context, c.within-c.call.Elapsed())
	if !c.timed.CompareAndSwap(nil, t) {
		t.cancel()
	}
	return c.timed.Load()
}

// end releases the timer, if there is one.
func (c *callContext) end() {
	if t := c.timed.Load(); t != nil {
		t.cancel()
	}
}

// Deadline is the caller's or the guard's, whichever is sooner. It needs a timer only if
// the breaker does not measure the call, because the deadline would otherwise move.
func (c *callContext) Deadline() (time.Time, bool) {
	elapsed := c.call.Elapsed()
	if c.timed.Load() != nil || elapsed == 0 {
		return c.timer().Deadline()
	}
	own := time.Now().Add(c.within - elapsed)
	if at, ok := c.Context.Deadline(); ok && at.Before(own) {
		return at, true
	}
	return own, true
}

// Done is closed at the deadline, or when the caller gives up.
func (c *callContext) Done() <-chan struct{} { return c.timer().Done() }

// Err needs no timer as long as there is none.
func (c *callContext) Err() error {
	if c.timed.Load() != nil || c.call.Elapsed() >= c.within {
		return c.timer().Err()
	}
	return c.Context.Err()
}

// Value finds the standard library's own context, once there is one, so that
// contexts derived from this one hang on it directly.
func (c *callContext) Value(key any) any {
	if t := c.timed.Load(); t != nil {
		return t.Value(key)
	}
	return c.Context.Value(key)
}
