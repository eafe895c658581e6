package lease

import (
	"sync"
	"sync/atomic"
	"time"
)

// clock is a node's own time, in microseconds. It follows the monotonic clock, which
// cannot be set but stands still while the machine is suspended. Leases must end during
// a suspension, so the clock adds what the wall clock gains on the monotonic one. A wall
// clock that is set ahead ends leases early; one that is set back has no effect.
type clock struct {
	began  time.Time
	ahead  atomic.Int64 // of the monotonic clock: the wall clock, when last it was followed
	gained atomic.Int64

	adjusting sync.Mutex
}

// reading is both clocks, since the clock began.
type reading struct{ monotonic, wall int64 }

// maxDivergence is how far the two clocks may diverge before that is a gain.
const maxDivergence = 5_000

func (c *clock) read() reading {
	t := time.Now()
	return reading{int64(t.Sub(c.began) / time.Microsecond), t.UnixMicro() - c.began.UnixMicro()}
}

// now reads the clocks again when they have diverged: the thread may have been
// interrupted between the two.
func (c *clock) now() int64 {
	r := c.read()
	if c.diverged(r) {
		r = c.read()
		c.adjust(r)
	}
	return r.monotonic + c.gained.Load()
}

func (c *clock) diverged(r reading) bool {
	gain := r.wall - r.monotonic - c.ahead.Load()
	return gain > maxDivergence || gain < -maxDivergence
}

// adjust adds the gain of the wall clock, and records its loss.
func (c *clock) adjust(r reading) {
	c.adjusting.Lock()
	defer c.adjusting.Unlock()
	if c.diverged(r) {
		ahead := r.wall - r.monotonic
		c.gained.Add(max(0, ahead-c.ahead.Load()))
		c.ahead.Store(ahead)
	}
}
