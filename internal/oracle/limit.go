package oracle

import (
	"fmt"
	"math/big"
	"time"

	"github.com/stintdev/stint"
)

// limit holds a limit's numbers, computed from its spec independently of the
// limit's own compiled numbers.
type limit struct {
	algorithm stint.Algorithm
	shape     string
	max       int64    // units that an idle key may take at once
	p, q      *big.Int // rate of a bucket: p/q micro-units a microsecond
	window    int64    // µs
	buckets   int64    // buckets of a sliding counter
	maxWait   int64    // µs, of a leaky bucket; anyDelay: no bound
	calendar  calendar // calendar of a quota
}

func newLimit(handle stint.Limit) *limit {
	s := handle.Spec()
	l := &limit{algorithm: s.Algorithm, max: s.Limit, window: s.Window.Microseconds(), buckets: int64(s.Buckets)}
	switch s.Algorithm {
	case stint.TokenBucket, stint.GCRA:
		l.max = s.Capacity
		l.setRate(handle)
	case stint.LeakyBucket:
		l.max = s.Queue + 1
		if l.maxWait = s.MaxWait.Microseconds(); l.maxWait == 0 {
			l.maxWait = anyDelay
		}
		l.setRate(handle)
	case stint.Quota:
		l.calendar = newCalendar(s)
	}
	l.shape = fmt.Sprint(s.Algorithm, s.Window, s.Buckets, l.calendar.cut())
	return l
}

// setRate sets the rate of the spec if it fits. If it does not, setRate checks the lower
// fraction that the handle chose and sets that.
func (l *limit) setRate(handle stint.Limit) {
	rate := statedRate(handle.Spec())
	if !l.fits(rate) {
		chosen := handle.Rate()
		if !l.standsFor(chosen, rate) {
			panic(fmt.Sprintf("oracle: rate %v of %v does not fit, and %v does not stand for it", rate, handle, chosen))
		}
		rate = chosen
	}
	l.p, l.q = rate.Num(), rate.Denom()
}

func statedRate(s stint.Spec) *big.Rat {
	if s.RefillRate != "" {
		rate, ok := new(big.Rat).SetString(s.RefillRate)
		if !ok {
			panic("oracle: refill rate " + s.RefillRate)
		}
		return rate
	}
	return new(big.Rat).Quo(new(big.Rat).SetInt64(s.Limit*int64(time.Second/time.Microsecond)), new(big.Rat).SetInt64(s.Window.Microseconds()))
}

func (l *limit) read(state any) reading {
	switch l.algorithm {
	case stint.TokenBucket, stint.GCRA:
		s, _ := state.(*parts)
		return bucket{l, s}
	case stint.LeakyBucket:
		s, _ := state.(*parts)
		return leaky{l, s}
	case stint.SlidingWindowCounter:
		s, _ := state.(*counts)
		return counter{l, s}
	case stint.SlidingWindowLog:
		s, _ := state.(entries)
		return log{l, s}
	case stint.Quota:
		s, _ := state.(*period)
		return window{l, l.calendar.start, s}
	}
	s, _ := state.(*period)
	return window{l, func(t int64) int64 { return floor(t, l.window) * l.window }, s}
}

// floor returns a/b rounded toward minus infinity.
func floor(a, b int64) int64 {
	if a < 0 && a%b != 0 {
		return a/b - 1
	}
	return a / b
}
