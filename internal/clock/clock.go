// Package clock tells the time of a memory store, in microseconds since the Unix
// epoch.
//
// Every check reads the time, and the system's wall clock would be a large part
// of its cost. A [Clock] therefore reads a monotonic counter, which costs half as
// much or less, and converts the count to wall time by one multiplication. The
// counter is Go's monotonic clock, in nanoseconds, or the processor's time stamp
// counter, in cycles. Once a second, one of the readers compares the counter with
// the system's clocks and publishes the next conversion. No goroutine runs for
// that, so a clock that nobody reads costs nothing.
//
// The time never runs backwards, but for the last case below:
//
//   - The wall clock is set forward (a step of NTP, an administrator): the clock
//     follows at the next comparison, and leaps.
//   - The wall clock is set back: the clock does not follow. It goes on at its
//     true speed, ahead of the wall clock, until the wall clock has caught up.
//     To run slower instead would refill buckets late, and would make every
//     RetryAfter that was already returned too short.
//   - The wall clock is slewed, or the monotonic clock itself drifts from it: the
//     clock follows a wall clock that runs faster at once. A wall clock that
//     falls behind by less than one part in 2,000 counts as drift, and the clock
//     runs slower by as much.
//   - The machine is suspended, or a virtual machine is paused: the monotonic
//     clock stands still meanwhile on most systems, and the wall clock does not.
//     After the resume the clock leaps forward like the wall clock.
//   - A virtual machine moves to another host: the processor's counter may leap
//     or change its speed. The next comparison finds that and gives the counter
//     up.
//
// The processor's counter is used on amd64 under Linux, where the kernel itself
// keeps time by it. Each comparison checks that the counter and the monotonic
// clock agree to one part in 1,000 since the last one, and one comparison in 64
// also asks the kernel whether it still trusts the counter. If not, the clock
// uses Go's monotonic clock from then on. Until a comparison finds a leap, the
// time is wrong by at most two seconds: a reader that finds the counter further
// from where it should be waits for the comparison. A time that was up to a
// second ahead is made up by running slower; a greater lead is dropped, and the
// time runs backwards once. A counter that stops is not found, because no reader
// sees it reach the next second. An invariant counter, the only kind used, does
// not stop.
package clock

import (
	"math/bits"
	"sync"
	"sync/atomic"
	"time"
)

// Options configures a [Clock]. The zero value is useful.
type Options struct {
	// Given returns the time and replaces the clock's own counter and
	// comparisons; see Micros.
	Given func() time.Time

	// Processor counts the processor's cycles, where that is safe.
	Processor bool

	// OnFallback is called once, with the reason, when the processor's counter
	// has been given up. The reader that found the reason calls it.
	OnFallback func(reason string)
}

// Clock is a clock for many readers. It must not be copied.
type Clock struct {
	given      func() time.Time
	onFallback func(reason string)
	base       time.Time // zero of the nanosecond counter
	anchor     atomic.Pointer[anchor]

	syncing sync.Mutex // held during a comparison
	lead    lead       // guarded by syncing
	cycles  cycleCheck // guarded by syncing
}

// latest is the latest time that a clock shows, in the year 2255. Lua's doubles
// are exact up to it.
const latest = 1<<53 - 1

// Init starts the clock, and decides which counter it reads: with
// Options.Processor (--clock auto of the server) the processor's, if
// counterKeepsTime finds it safe and it can be measured. Measuring its rate takes
// two milliseconds.
func (c *Clock) Init(o Options) {
	c.given, c.onFallback = o.Given, o.OnFallback
	if c.given != nil {
		return
	}
	c.base = time.Now()
	count, rate := uint64(0), uint64(perNanosecond)
	processor := false
	if o.Processor && counterKeepsTime() {
		if measured := c.cycles.start(); measured != 0 {
			processor, c.base, count, rate = true, c.cycles.first.at, c.cycles.first.count, measured
		}
	}
	wall := c.base.UnixNano()
	c.lead = lead{wall: wall, own: wall}
	a := &anchor{cycles: processor, start: count, span: countsOf(1_000_000, rate), rate: rate, full: rate}
	a.wall, a.part = microseconds(wall)
	c.anchor.Store(a)
}

// Micros converts a time to microseconds since the Unix epoch. It rounds down, and
// limits the time to the years 1970 to 2255.
func Micros(t time.Time) int64 { return min(max(0, t.UnixMicro()), latest) }

// Now returns the time in microseconds since the Unix epoch.
func (c *Clock) Now() int64 {
	if c.given != nil {
		return c.readGiven()
	}
	a := c.anchor.Load()
	var count uint64
	if a.cycles { // c.count by hand: the compiler does not inline it
		count = cycles()
	} else {
		count = uint64(time.Since(c.base))
	}
	if passed := count - a.start; passed < a.span {
		return a.after(passed, a.rate)
	}
	return c.resync(a, count)
}

// readGiven is not part of Now, so that Now stays short for clocks of their own.
func (c *Clock) readGiven() int64 { return Micros(c.given()) }

// resync returns the time for a count outside the span of an anchor. Shortly
// before the span, the anchor is new and its time begins soon. After the span, it
// is time for a comparison, unless another goroutine makes it. Further away, the
// clock was not read for long, the machine was suspended or the counter leapt,
// and no time is returned before the comparison.
func (c *Clock) resync(a *anchor, count uint64) int64 {
	if current := c.anchor.Load(); current != a { // replaced before the count was read
		return current.at(c.count(current))
	}
	switch passed := int64(count - a.start); {
	case passed < 0 && -passed <= int64(a.span):
		return a.at(count)
	case passed >= 0 && passed <= int64(2*a.span):
		if !c.syncing.TryLock() {
			return a.at(count)
		}
	default:
		c.syncing.Lock()
	}
	reason := ""
	if a == c.anchor.Load() {
		a, reason = c.compare(a)
		c.anchor.Store(a)
	}
	c.syncing.Unlock()
	if reason != "" && c.onFallback != nil {
		c.onFallback(reason)
	}
	a = c.anchor.Load()
	return a.at(c.count(a))
}

// count reads the counter of an anchor.
func (c *Clock) count(a *anchor) uint64 {
	if a.cycles {
		return cycles()
	}
	return uint64(time.Since(c.base))
}

// compare compares the counter of an anchor with the system's clocks and returns
// the next anchor. reason says why the processor's counter is given up, if it is.
func (c *Clock) compare(a *anchor) (next *anchor, reason string) {
	if !a.cycles {
		now := time.Now()
		return a.next(c.nanoseconds(now), c.follow(now), perNanosecond), ""
	}
	r := readCycles()
	wall := c.follow(r.at)
	rate, reason := c.cycles.check(r, a.full)
	if reason == "" {
		return a.next(r.count, wall, rate), ""
	}
	shown := nanoseconds(a.exactly(r.count))
	if ahead := shown - wall; ahead < 0 || ahead > int64(time.Second) {
		shown = wall
	}
	b := &anchor{start: c.nanoseconds(r.at), full: perNanosecond}
	b.wall, b.part = microseconds(shown)
	return b.next(b.start, wall, perNanosecond), reason
}

// nanoseconds returns the nanosecond counter at a time.
func (c *Clock) nanoseconds(at time.Time) uint64 { return uint64(at.Sub(c.base)) }

// follow returns the time that the clock should show, in nanoseconds since the
// Unix epoch, when the system's clocks show at.
func (c *Clock) follow(at time.Time) int64 {
	return c.lead.follow(int64(at.Sub(c.base)), at.UnixNano())
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

// anchor maps counts of a monotonic counter to wall time.
type anchor struct {
	cycles bool   // the counter is the processor's, not the nanoseconds
	start  uint64 // count at which the anchor takes effect
	span   uint64 // number of counts from start for which rate holds: one second
	wall   int64  // time at start, in microseconds
	part   uint64 // the fraction of a microsecond beside wall, in units of 2^-64
	rate   uint64 // microseconds per count within the span, in units of 2^-64
	full   uint64 // the true rate, used before start and after the span
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
	b := &anchor{cycles: a.cycles, start: count + ahead, span: second, rate: full, full: full}
	b.wall, b.part = a.exactly(b.start)
	wall += nanoseconds(durationOf(ahead, full))
	switch gap := wall - nanoseconds(b.wall, b.part); {
	case gap > 0:
		b.wall, b.part = microseconds(wall)
	case gap < 0:
		lag := uint64(min(-gap, int64(time.Second/2)))
		b.rate -= full / uint64(time.Second) * lag
	}
	return b
}

// countsOf returns the number of counts in the given microseconds at a rate.
func countsOf(micros, rate uint64) uint64 {
	counts, _ := bits.Div64(micros, 0, rate)
	return counts
}

// durationOf returns the length of counts at a rate, in microseconds and a
// fraction of one in units of 2^-64.
func durationOf(counts, rate uint64) (micros int64, part uint64) {
	whole, part := bits.Mul64(counts, rate)
	return int64(whole), part
}

// nanoseconds converts microseconds and a fraction of one, in units of 2^-64, to
// the nearest nanosecond.
func nanoseconds(micros int64, part uint64) int64 {
	whole, rest := bits.Mul64(part, 1000)
	return micros*1000 + int64(whole+rest>>63)
}

// microseconds converts nanoseconds to microseconds and a fraction of one, in
// units of 2^-64.
func microseconds(nanos int64) (micros int64, part uint64) {
	return nanos / 1000, uint64(nanos%1000) * perNanosecond
}
