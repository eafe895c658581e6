package clock

import (
	"fmt"
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

// agreePart bounds the difference between the processor's counter and the
// monotonic clock, as a part of the time since the last comparison. The kernel
// itself slews the monotonic clock by up to one part in 2,000 for NTP. A time
// daemon that slews it by more than agreePart ends the use of the counter.
const agreePart = 1000

// noisePart bounds the error of the first measurement of the rate, as a part of
// measureFor. A machine on which reading the counter takes longer, such as one
// that emulates it, gains nothing from it.
const noisePart = 2000

// kernelEvery is how many comparisons pass until one asks the kernel again. Asking
// reads a file, which takes some microseconds.
const kernelEvery = 64

// cycleCheck checks the processor's counter against the monotonic clock.
type cycleCheck struct {
	first, last reading
	checks      int
	trusted     func() bool // counterKeepsTime, unless a test replaces it
}

// reading is the processor's counter and the system's clocks at one moment.
type reading struct {
	count uint64
	at    time.Time
	took  uint64 // bound on the error, in counts
}

// readCycles makes some attempts and returns the fastest, because the others may
// have been interrupted between the readings of the two clocks.
func readCycles() (r reading) {
	r.took = math.MaxUint64
	for range 8 {
		before := cycles()
		now := time.Now()
		if took := cycles() - before; took < r.took {
			r = reading{count: before + took/2, at: now, took: took}
		}
	}
	return r
}

// start measures the counter's rate. It returns 0 when the counter or the
// system's clock stands still, or when the measurement is too noisy.
func (k *cycleCheck) start() (rate uint64) {
	k.trusted = counterKeepsTime
	k.first = readCycles()
	for looks := 0; ; looks++ { // the time is too short for a sleep
		passed := time.Since(k.first.at)
		if passed >= measureFor {
			break
		}
		if passed == 0 && looks >= frozenAfter {
			return 0
		}
	}
	k.last = readCycles()
	counts := k.last.count - k.first.count
	if k.first.took+k.last.took > counts/noisePart {
		return 0
	}
	return rateOf(k.last.at.Sub(k.first.at), counts, 0)
}

// check compares a reading with the last one. It returns the counter's rate since
// the first reading, or the reason why the counter does not keep time.
func (k *cycleCheck) check(r reading, rate uint64) (measured uint64, reason string) {
	passed := r.at.Sub(k.last.at)
	counted := time.Duration(math.MinInt64) // the counter ran backwards
	if counts := r.count - k.last.count; int64(counts) >= 0 {
		counted = time.Duration(nanoseconds(durationOf(counts, rate)))
	}
	noise := time.Duration(nanoseconds(durationOf(r.took+k.last.took, rate)))
	if allowed := passed/agreePart + noise; counted < passed-allowed || counted > passed+allowed {
		if counted < 0 {
			return 0, "the processor's counter ran backwards"
		}
		return 0, fmt.Sprintf("the processor's counter passed %v while the system's clock passed %v", counted, passed)
	}
	if k.checks++; k.checks%kernelEvery == 0 && !k.trusted() {
		return 0, "the kernel keeps time by another clock"
	}
	k.last = r
	return rateOf(r.at.Sub(k.first.at), r.count-k.first.count, rate), ""
}

// rateOf returns the rate of a counter in microseconds per count, in units of 2^-64, from its
// counts during the elapsed time. It returns the value otherwise for a counter slower than one
// count per microsecond.
func rateOf(elapsed time.Duration, counts, otherwise uint64) uint64 {
	high, low := bits.Mul64(uint64(elapsed), perNanosecond)
	if high >= counts {
		return otherwise
	}
	rate, _ := bits.Div64(high, low, counts)
	return rate
}
