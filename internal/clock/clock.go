package clock

import (
	"math/bits"
	"sync"
	"sync/atomic"
	"time"
)

// Clock is the time of a memory store in microseconds since the Unix epoch.
//
// Every check reads the time, so the clock avoids the system's wall clock. It
// reads a monotonic counter, of nanoseconds or of the processor's cycles, which
// costs half as much or less, and compares it with the system's clocks once a
// second. Its time never runs backwards.
//
// When the wall clock is set forward, the clock follows at once, so its time may
// leap forward. When the wall clock is set back, the clock does not follow: it
// goes on at its true speed, ahead of the wall clock, until the wall clock has
// caught up. To run slower instead would refill buckets late, and would make
// every RetryAfter that was already returned too short. The one correction by
// running slower is for a monotonic clock that itself runs fast: it is spread
// over the next second.
type Clock struct {
	given   func() int64 // MemoryOptions.Clock; replaces everything below
	base    time.Time    // zero of the nanosecond counter
	cycles  bool         // count the processor's cycles instead of nanoseconds
	from    uint64       // cycles at base
	anchor  atomic.Pointer[anchor]
	syncing sync.Mutex
	lead    lead // guarded by syncing
}

// lead is how far the wall clock and this clock are ahead of the monotonic
// clock. All fields are nanoseconds.
type lead struct {
	steady int64 // the monotonic clock at the last comparison
	wall   int64 // lead of the wall clock at that time
	own    int64 // lead of this clock
	drift  int64 // part of own that is still to be corrected
}

// driftPart separates drift from a clock that was set back. Systems adjust the
// speed of their clocks by less than one part in 2,000, so a wall clock that
// falls behind by more than that was set back.
const driftPart = 2000

// follow returns the time that this clock should show, in nanoseconds since the
// Unix epoch, given the readings of the system's monotonic and wall clock.
func (l *lead) follow(steady, wall int64) int64 {
	ahead, passed := wall-steady, steady-l.steady
	if back := l.wall - ahead; back > 0 && back <= passed/driftPart {
		l.drift += back
	}
	l.steady, l.wall = steady, ahead
	slower := min(l.drift, int64(time.Second)/driftPart)
	l.drift -= slower
	if l.own -= slower; ahead >= l.own {
		l.own, l.drift = ahead, 0
	}
	return steady + l.own
}

// latest is the latest time that a clock shows, in the year 2255. Lua's doubles
// are exact up to it.
const latest = 1<<53 - 1

func (c *Clock) Init(given func() int64, processor bool) {
	c.given, c.base = given, time.Now()
	a := &anchor{span: uint64(time.Second), rate: perNanosecond, full: perNanosecond}
	if processor && given == nil && counterKeepsTime() {
		a = c.startCounter(a)
	}
	a.wall = c.base.UnixMicro()
	c.lead = lead{wall: c.base.UnixNano(), own: c.base.UnixNano()}
	c.anchor.Store(a)
}

func (c *Clock) Now() int64 {
	if c.given != nil {
		return min(max(0, c.given()), latest)
	}
	var count uint64
	if c.cycles { // c.count by hand: the compiler does not inline it
		count = cycles()
	} else {
		count = uint64(time.Since(c.base))
	}
	a := c.anchor.Load()
	if passed := count - a.start; passed < a.span {
		return a.after(passed, a.rate)
	}
	return c.resync(a, count)
}

// count reads the monotonic counter.
func (c *Clock) count() uint64 {
	if c.cycles {
		return cycles()
	}
	return uint64(time.Since(c.base))
}

// resync returns the time for a count outside the span of an anchor. A count
// may lie shortly before the span. After the span, resync compares the clock
// with the wall clock, unless another goroutine is doing so.
func (c *Clock) resync(a *anchor, count uint64) int64 {
	if int64(count-a.start) < 0 || !c.syncing.TryLock() {
		return a.at(count)
	}
	defer c.syncing.Unlock()
	if a == c.anchor.Load() {
		a = a.next(c.compare(a.full))
		c.anchor.Store(a)
	}
	return a.at(c.count())
}

// compare reads, at one moment, the monotonic counter and the time in
// nanoseconds that the clock should show. It also returns the counter's true
// rate; full is the rate known so far.
func (c *Clock) compare(full uint64) (count uint64, wall int64, rate uint64) {
	now := time.Now()
	if c.cycles {
		count, now, full = c.compareCycles(full)
	} else {
		count = uint64(now.Sub(c.base))
	}
	return count, c.lead.follow(int64(now.Sub(c.base)), now.UnixNano()), full
}

// anchor maps counts of the monotonic counter to wall time.
type anchor struct {
	start uint64 // count at which the anchor takes effect
	span  uint64 // number of counts from start for which rate holds: one second
	wall  int64  // time at start, in microseconds
	part  uint64 // the fraction of a microsecond beside wall, in units of 2^-64
	rate  uint64 // microseconds per count within the span, in units of 2^-64
	full  uint64 // the true rate, used before start and after the span
}

// perNanosecond is the rate of a counter of nanoseconds. It is rounded up, which
// makes it exact for whole microseconds.
const perNanosecond = 1<<64/1000 + 1

// headStart is how long before its start an anchor is published, as a fraction
// of its span: 1/64 of a second, 16 ms. Readers that still use the previous
// anchor during that time read the same time as from this one.
const headStart = 64

// after returns the time that lies counts after start, at the given rate.
func (a *anchor) after(counts, rate uint64) int64 {
	whole, part := bits.Mul64(counts, rate)
	_, carry := bits.Add64(part, a.part, 0)
	return a.wall + int64(whole+carry)
}

// at returns the time at any count.
func (a *anchor) at(count uint64) int64 {
	t, _ := a.exactly(count)
	return t
}

// exactly returns the time at any count, and the fraction of a microsecond
// beside it in units of 2^-64.
func (a *anchor) exactly(count uint64) (wall int64, part uint64) {
	counts := count - a.start
	if int64(counts) < 0 {
		whole, part := bits.Mul64(-counts, a.full)
		part, borrow := bits.Sub64(a.part, part, 0)
		return a.wall - int64(whole+borrow), part
	}
	inSpan := min(counts, a.span)
	whole, part := bits.Mul64(inSpan, a.rate)
	more, morePart := bits.Mul64(counts-inSpan, a.full)
	part, carry := bits.Add64(part, morePart, 0)
	part, carry2 := bits.Add64(part, a.part, 0)
	return a.wall + int64(whole+more+carry+carry2), part
}

// next returns the anchor that follows this one. The clock should show wall
// nanoseconds at count, and full is the true rate. A clock that is behind leaps
// forward. A clock that is ahead runs slower, so that it is right within the
// next second, but never at less than half speed. The lead comes from the error
// of the counter's measured rate and is small, so half speed is enough.
func (a *anchor) next(count uint64, wall int64, full uint64) *anchor {
	second := countsOf(1_000_000, full)
	ahead := second / headStart
	b := &anchor{start: count + ahead, span: second, rate: full, full: full}
	b.wall, b.part = a.exactly(b.start)
	aheadMicros, aheadPart := bits.Mul64(ahead, full)
	wall += nanoseconds(int64(aheadMicros), aheadPart)
	switch gap := wall - nanoseconds(b.wall, b.part); {
	case gap > 0:
		b.wall, b.part = wall/1000, uint64(wall%1000)*perNanosecond
	case gap < 0:
		lag := uint64(min(-gap, int64(time.Second/2)))
		b.rate -= full / uint64(time.Second) * lag
	}
	return b
}

// nanoseconds converts microseconds and a fraction of one, in units of 2^-64, to
// the nearest nanosecond.
func nanoseconds(micros int64, part uint64) int64 {
	whole, rest := bits.Mul64(part, 1000)
	return micros*1000 + int64(whole+rest>>63)
}
