package clock

import (
	"math"
	"math/bits"
	"time"
)

// measureFor is how long the rate of the processor's counter is measured when a
// clock starts. The error is then some parts in 10^5. The comparison every
// second corrects it, and measures the rate again over a longer time.
const measureFor = 2 * time.Millisecond

// frozenAfter is how many consecutive readings of an unchanged system clock mean
// that the clock stands still, as in a bubble of testing/synctest. They take
// some hundred microseconds.
const frozenAfter = 10_000

// startCounter makes the clock count cycles and returns its first anchor. It
// returns otherwise, and changes nothing but base and from, when the counter or
// the system's clock stands still.
func (c *Clock) startCounter(otherwise *anchor) *anchor {
	c.base, c.from = time.Now(), cycles()
	for looks := 0; ; looks++ { // the time is too short for a sleep
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

// compareCycles is compare for the processor's counter. It makes four attempts
// and uses the fastest, because the others may have been interrupted between
// the readings of the two clocks.
func (c *Clock) compareCycles(full uint64) (count uint64, at time.Time, rate uint64) {
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

// rateOf returns the rate of a counter in microseconds per count, in units of
// 2^-64, from its counts during the elapsed time. It returns otherwise for a
// counter slower than one count per microsecond, which can follow when a virtual
// machine moves to another host.
func rateOf(elapsed time.Duration, counts, otherwise uint64) uint64 {
	high, low := bits.Mul64(uint64(elapsed), perNanosecond)
	if high >= counts {
		return otherwise
	}
	rate, _ := bits.Div64(high, low, counts)
	return rate
}

// countsOf returns the number of counts in the given microseconds at a rate.
func countsOf(micros, rate uint64) uint64 {
	counts, _ := bits.Div64(micros, 0, rate)
	return counts
}
