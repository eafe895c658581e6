package breaker

import (
	"sync"
	"sync/atomic"
	"time"
)

// CoarseClock is a clock that any number of breakers may share. A read costs about 1 ns
// instead of the 20 to 30 ns of the system's clock; a call through a breaker with
// SlowAfter reads it twice. Make one with [NewCoarseClock]; a nil or zero CoarseClock
// returns the system's time, and no breaker takes a zero one. It is safe for concurrent
// use.
//
// The clock advances only at each tick. A measured duration is therefore off by up to a
// tick, or by more when a busy machine delays the tick.
type CoarseClock struct {
	base    time.Time
	now     atomic.Int64 // nanoseconds from base to the last tick; below 0 once stopped
	stopped chan struct{}
	once    sync.Once // closes stopped
}

// NewCoarseClock returns a clock that advances at each tick. Choose a hundredth of the
// shortest SlowAfter, but not much less than 1 ms, because a goroutine wakes at each
// tick. A tick of 0 or less means 1 ms. The caller must stop the clock.
func NewCoarseClock(tick time.Duration) *CoarseClock {
	if tick <= 0 {
		tick = time.Millisecond
	}
	c := &CoarseClock{base: time.Now(), stopped: make(chan struct{})}
	go c.run(time.NewTicker(tick))
	return c
}

func (c *CoarseClock) run(ticker *time.Ticker) {
	defer c.now.Store(-1)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			c.now.Store(int64(time.Since(c.base)))
		case <-c.stopped:
			return
		}
	}
}

// Stop ends the goroutine of the clock. A stopped clock returns the system's time. Only
// the first call has an effect.
func (c *CoarseClock) Stop() {
	if c.made() {
		c.once.Do(func() { close(c.stopped) })
	}
}

// made reports whether the clock came from NewCoarseClock.
func (c *CoarseClock) made() bool { return c != nil && c.stopped != nil }

// Now returns the time of the last tick. It is a Clock for the options of any other
// package.
func (c *CoarseClock) Now() time.Time {
	if !c.made() {
		return time.Now()
	}
	return c.base.Add(c.elapsed())
}

// elapsed returns the time since the clock was made.
func (c *CoarseClock) elapsed() time.Duration {
	if now := c.now.Load(); now >= 0 {
		return time.Duration(now)
	}
	return time.Since(c.base)
}
