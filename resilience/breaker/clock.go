package breaker

import (
	"sync"
	"sync/atomic"
	"time"
)

// CoarseClock returns a clock for [Options] that any number of breakers may
// share, and what stops it. Reading it costs a nanosecond where the system's
// costs twenty to thirty, and a call through a breaker that looks for slow
// ones reads twice. Its time stands still between ticks, so a call seems to
// take up to a tick more or less than it does, or as much more as a busy
// machine is late with a tick: choose a hundredth of the shortest SlowAfter,
// but not much under a millisecond, because one goroutine wakes at each tick.
// A tick of 0 or less is a millisecond. Once stopped, it tells the system's
// time; stop may be called more than once.
func CoarseClock(tick time.Duration) (clock func() time.Duration, stop func()) {
	if tick <= 0 {
		tick = time.Millisecond
	}
	c := &coarseClock{base: time.Now(), stopped: make(chan struct{})}
	ticker := time.NewTicker(tick)
	go c.run(ticker)
	return c.read, sync.OnceFunc(func() { close(c.stopped) })
}

type coarseClock struct {
	base    time.Time
	now     atomic.Int64 // as of the last tick; below 0 once stopped
	stopped chan struct{}
}

func (c *coarseClock) run(ticker *time.Ticker) {
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

func (c *coarseClock) read() time.Duration {
	if now := c.now.Load(); now >= 0 {
		return time.Duration(now)
	}
	return time.Since(c.base)
}
