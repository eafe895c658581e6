package stint

import (
	"context"
	"time"
)

// Clock reads the time and sleeps, for the waits of a [Limiter]. It must be safe
// for concurrent use. The default, the system's clock, follows the fake time of
// testing/synctest, so only tests and simulations outside of it need a Clock of
// their own.
type Clock interface {
	// Now returns the time. A clock may stand still, but should not run back.
	Now() time.Time
	// Sleep waits for d, or until the context ends and then returns an error.
	// It returns at once when d is 0 or less.
	Sleep(ctx context.Context, d time.Duration) error
}

// now returns the time by the limiter's clock.
func (l *Limiter) now() time.Time {
	if l.clock == nil {
		return time.Now()
	}
	return l.clock.Now()
}

// deadline returns the deadline of ctx by the limiter's clock, or the zero time if
// ctx has none. The deadlines of contexts are times of the system's clock, which
// mean nothing on another one; what carries over is the time left.
func (l *Limiter) deadline(ctx context.Context) time.Time {
	end, ok := ctx.Deadline()
	if !ok || l.clock == nil {
		return end
	}
	return l.clock.Now().Add(time.Until(end))
}

// sleepUntil sleeps until due or until ctx ends. It reports whether due has
// been reached, which is true when both happen at once.
func (l *Limiter) sleepUntil(ctx context.Context, due time.Time) bool {
	if l.clock != nil {
		return l.clock.Sleep(ctx, due.Sub(l.clock.Now())) == nil || !l.clock.Now().Before(due)
	}
	timer := time.NewTimer(time.Until(due))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return !time.Now().Before(due)
	}
}

// alarm returns a channel that is closed when the limiter's clock reaches the end,
// unless stop is called or ctx ends before. The system's clock needs only a timer;
// another clock can only sleep, which takes a goroutine.
func (l *Limiter) alarm(ctx context.Context, end time.Time) (rings <-chan struct{}, stop func()) {
	if l.clock == nil {
		at, cancel := context.WithDeadline(context.Background(), end)
		return at.Done(), cancel
	}
	ctx, cancel := context.WithCancel(ctx)
	rang := make(chan struct{})
	go func() {
		if l.clock.Sleep(ctx, end.Sub(l.clock.Now())) == nil {
			close(rang)
		}
	}()
	return rang, cancel
}
