package stint

import (
	"math/bits"
	"sync"
	"sync/atomic"
	"time"
)

// clock is the time of a memory store in microseconds since the Unix epoch.
//
// It reads a steady counter, of nanoseconds or of the processor's cycles,
// which costs half as much as the wall clock or less, and compares it with
// the system's clocks once a second. A wall clock that is set ahead is followed
// at once; so time may leap forward, as it does for everyone. One that is set
// back is not followed: the clock goes on at its true speed, ahead of the wall
// clock by so much, until that has caught up. A slower clock would refill
// buckets late, and make every RetryAfter that it told untrue. Only where the
// steady clock itself runs fast is it made up for, by running slower for the
// next second.
type clock struct {
	given   func() int64 // the caller's, in place of everything below
	base    time.Time    // what the steady clock counts from
	cycles  bool         // count the processor's cycles
	from    uint64       // cycles at base
	anchor  atomic.Pointer[anchor]
	syncing sync.Mutex
	lead    lead // guarded by syncing
}

// lead is how far the wall clock is ahead of the steady one, and how far the
// clock is. All are nanoseconds.
type lead struct {
	steady int64 // when last compared
	wall   int64 // of the wall clock then
	own    int64 // of the clock
	drift  int64 // of own that is to be made up for
}

// Clocks that are steered drift apart by less than a part in 2,000: system
// clocks are set right by no more. What is more was set back.
const driftPart = 2000

// follow returns the time that the clock should show, in nanoseconds since the
// Unix epoch, when the system's steady and wall clock show these.
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

func (c *clock) init(given func() int64, processor bool) {
	c.given, c.base = given, time.Now()
	a := &anchor{span: uint64(time.Second), rate: perNanosecond, full: perNanosecond}
	if processor && given == nil && counterKeepsTime() {
		a = c.startCounter(a)
	}
	a.wall = c.base.UnixMicro()
	c.lead = lead{wall: c.base.UnixNano(), own: c.base.UnixNano()}
	c.anchor.Store(a)
}

func (c *clock) now() int64 {
	if c.given != nil {
		return min(max(0, c.given()), maxMicros)
	}
	var count uint64
	if c.cycles { // count, which the compiler does not inline
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

// count reads the steady counter.
func (c *clock) count() uint64 {
	if c.cycles {
		return cycles()
	}
	return uint64(time.Since(c.base))
}

// resync returns the time outside the span of an anchor: shortly before it,
// or after it, where the clock is compared with the wall clock unless someone
// else does already.
func (c *clock) resync(a *anchor, count uint64) int64 {
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

// compare reads the steady counter and the time that the clock should show, in
// nanoseconds, at one moment, and tells the counter's true rate, which was full
// so far.
func (c *clock) compare(full uint64) (count uint64, wall int64, rate uint64) {
	now := time.Now()
	if c.cycles {
		count, now, full = c.compareCycles(full)
	} else {
		count = uint64(now.Sub(c.base))
	}
	return count, c.lead.follow(int64(now.Sub(c.base)), now.UnixNano()), full
}

// anchor ties the steady counter to the wall clock.
type anchor struct {
	start uint64 // of the counter
	span  uint64 // for how many counts from start the rate holds: a second
	wall  int64  // at start
	part  uint64 // of a microsecond more, in 2^-64
	rate  uint64 // microseconds a count, in 2^-64
	full  uint64 // the rate before start and behind span: that of true time
}

// perNanosecond is the rate of a counter of nanoseconds. Rounded up, it is
// exact for whole microseconds.
const perNanosecond = 1<<64/1000 + 1

// headStart is how long before it takes effect an anchor is made, as a part
// of its span: 16 ms. Whoever reads the clock by the last one meanwhile reads
// what this one says.
const headStart = 64

// after is the time so many counts after start, at a rate.
func (a *anchor) after(counts, rate uint64) int64 {
	whole, part := bits.Mul64(counts, rate)
	_, carry := bits.Add64(part, a.part, 0)
	return a.wall + int64(whole+carry)
}

// at is the time at any count.
func (a *anchor) at(count uint64) int64 {
	t, _ := a.exactly(count)
	return t
}

// exactly is the time at any count, and the part of a microsecond more.
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

// next is the anchor after this one, when the clock should show so many
// nanoseconds at a count, and true time passes at the rate full. A clock that is
// ahead of that runs slower, by as much as makes the two meet within the next
// second, but never slower than half: it is ahead by what the counter's rate was
// off, which is little.
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

// nanoseconds is microseconds, and a part of one more, to the nearest.
func nanoseconds(micros int64, part uint64) int64 {
	whole, rest := bits.Mul64(part, 1000)
	return micros*1000 + int64(whole+rest>>63)
}
