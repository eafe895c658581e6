package stint

import (
	"sync"
	"sync/atomic"
	"time"
)

// clock is the time of a memory store in microseconds since the Unix epoch.
//
// It reads a monotonic clock, which costs half as much as the wall clock, and
// compares the two once a second. A wall clock that is ahead is followed at
// once; so time may leap forward, as it does for everyone. One that was set
// back is never followed backwards: the clock runs slower, by as much as
// makes the two meet within the next second, but never slower than half.
type clock struct {
	given   func() int64 // the caller's, in place of everything below
	base    time.Time    // what monotonic time counts from
	counter *counter     // the processor's; nil when it is not used
	anchor  atomic.Pointer[anchor]
	syncing sync.Mutex
}

func (c *clock) init(given func() int64, processor bool) {
	c.given, c.base = given, time.Now()
	if processor && given == nil && counterKeepsTime() {
		c.counter = startCounter(c.base)
	}
	c.anchor.Store(&anchor{wall: c.base.UnixMicro()})
}

func (c *clock) now() int64 {
	if c.given != nil {
		return min(max(0, c.given()), maxMicros)
	}
	mono := c.mono()
	a := c.anchor.Load()
	if mono-a.mono >= int64(time.Second) {
		a = c.resync(a)
	}
	return a.at(mono)
}

// mono is nanoseconds since base.
func (c *clock) mono() int64 {
	if c.counter != nil {
		return c.counter.nanos()
	}
	return int64(time.Since(c.base))
}

// resync compares the clock with the wall clock, unless another does already.
func (c *clock) resync(a *anchor) *anchor {
	if !c.syncing.TryLock() {
		return a
	}
	defer c.syncing.Unlock()
	if now := c.anchor.Load(); now != a {
		return now
	}
	mono, wall := c.mono(), time.Now().UnixMicro()
	a = a.next(mono, wall)
	c.anchor.Store(a)
	return a
}

// anchor ties monotonic time to wall time. From mono, wall on, in a second,
// the clock loses lag.
type anchor struct {
	mono int64 // nanoseconds
	wall int64 // microseconds
	lag  int64 // microseconds, at most half a second
}

// headStart is how long before it takes effect an anchor is made. Whoever
// reads the clock by the last one meanwhile is not ahead of those who read it
// by this one.
const headStart = int64(10 * time.Millisecond)

// at is the time of the clock at a monotonic time, also shortly before mono.
func (a *anchor) at(mono int64) int64 {
	elapsed := mono - a.mono
	t := a.wall + floorDiv(elapsed, 1000)
	if a.lag > 0 && elapsed > 0 {
		t -= a.lag * min(elapsed, int64(time.Second)) / int64(time.Second)
	}
	return t
}

// next is the anchor after this one, a second or more later, when the wall
// clock read so much at a monotonic time.
func (a *anchor) next(mono, wall int64) *anchor {
	ahead := (headStart + mono - a.mono) / 1000 // whole microseconds, so that both count in step
	b := &anchor{mono: a.mono + ahead*1000}
	b.wall = a.at(b.mono)
	gap := wall + (b.mono-mono)/1000 - b.wall
	if gap >= 0 {
		b.wall += gap
	} else {
		b.lag = min(-gap, int64(time.Second/time.Microsecond)/2)
	}
	return b
}
