package stint

import (
	"math"
	"math/bits"
	"time"
)

// measureFor is how long the processor's counter is measured when a clock
// starts. What the rate is off by then, some parts in 10^5, the comparison
// of each second mends, which also measures it again over a longer time.
const measureFor = 2 * time.Millisecond

// frozenAfter is how many looks in a row at a system clock that does not move
// mean that it never will, as in a bubble of testing/synctest. They take some
// hundred microseconds.
const frozenAfter = 10_000

// startCounter makes the clock count cycles and returns its first anchor, or
// the given one when the counter or the system's clock stands still.
func (c *clock) startCounter(otherwise *anchor) *anchor {
	c.base, c.from = time.Now(), cycles()
	for looks := 0; ; looks++ { // too short a time to sleep for
		passed := time.Since(c.base)
		if passed >= measureFor {
			break
		}
		if passed == 0 && looks >= frozenAfter {
			return otherwise
		}
	}
	_, _, full := c.compareCycles(0)
	if full == 0 {
		return otherwise
	}
	c.cycles = true
	return &anchor{start: c.from, span: countsOf(1_000_000, full), rate: full, full: full}
}

// compareCycles is compare for the processor's counter. Of a few attempts the
// quickest counts: the others may have been interrupted between the clocks.
func (c *clock) compareCycles(full uint64) (count uint64, at time.Time, rate uint64) {
	rate = full
	for quickest, i := uint64(math.MaxUint64), 0; i < 4; i++ {
		before := cycles()
		now := time.Now()
		if took := cycles() - before; took < quickest {
			quickest, count, at = took, before+took/2, now
			rate = rateOf(now.Sub(c.base), count-c.from, full)
		}
	}
	return count, at, rate
}

// rateOf is the microseconds a count, in 2^-64, of a counter that counted so
// much in a time. A counter slower than a count a microsecond, as of a
// machine that was moved, is taken at the rate otherwise.
func rateOf(elapsed time.Duration, counts, otherwise uint64) uint64 {
	high, low := bits.Mul64(uint64(elapsed), perNanosecond)
	if high >= counts {
		return otherwise
	}
	rate, _ := bits.Div64(high, low, counts)
	return rate
}

// countsOf is how often a counter counts in so many microseconds.
func countsOf(micros, rate uint64) uint64 {
	counts, _ := bits.Div64(micros, 0, rate)
	return counts
}
