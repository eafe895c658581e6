package lease

import (
	"math"

	"github.com/stintdev/stint"
)

// size is how much of a limit a node may hold, and for how long.
type size struct {
	life          int64 // how long a lease lasts, L
	ahead         int64 // how far ahead a node takes tokens
	tick          int64 // time between two renewals
	minDenial     int64 // the least time for which the deny cache keeps a denial
	maxDenial     int64 // the greatest time for which the deny cache keeps a denial
	quarterRefill int64 // units that refill in a quarter of the lease time

	limit   int64
	ends    bool // a lease ends with its window
	refills bool // the limit is a bucket
}

// One lease is at most 1/shareOfRest of what the store has left. A denial is
// remembered for at least 1/shareOfTime of L.
const (
	shareOfRest = 8
	shareOfTime = 4
)

// microUnits is how many micro-units a unit of a bucket has.
const microUnits = 1_000_000

// newSize returns the size for a limit whose leases last for life. A denial is
// remembered for at most time.
func newSize(l stint.Limit, life, time, tick int64) *size {
	n := l.Numbers()
	s := &size{life: life, ahead: min(life, max(time, life/shareOfLife)), tick: tick, maxDenial: time, limit: n.Max}
	quarter := float64(time / shareOfTime)
	switch n.Algorithm {
	case stint.TokenBucket, stint.GCRA, stint.LeakyBucket:
		s.refills = true
		s.minDenial = min(time, n.Fill) / shareOfTime
		s.quarterRefill = int64(float64(n.P) / float64(n.Q) / microUnits * quarter)
	case stint.FixedWindow, stint.Quota:
		s.ends = true // a full window denies until its known end, so it needs no minDenial
		s.quarterRefill = int64(float64(n.Max) / float64(l.Window().Microseconds()) * quarter)
	default:
		s.minDenial = time / shareOfTime
		s.quarterRefill = int64(float64(n.Max) / float64(n.Window) * quarter)
	}
	return s
}

// leaseLife returns how long a lease granted by d lasts, from when its call was sent.
func (s *size) leaseLife(d *stint.Decision) int64 {
	if s.ends {
		return min(s.life, d.ResetAfter.Microseconds())
	}
	return s.life
}

// denialLife returns how long the deny cache keeps a denial with the given retry time.
// If the retry time exceeds maxDenial by less than minDenial, the next denial would be
// kept for minDenial, past the retry time. In that case denialLife leaves exactly
// minDenial for it.
func (s *size) denialLife(wait int64) int64 {
	if wait > s.maxDenial && wait < s.maxDenial+s.minDenial {
		return wait - s.minDenial
	}
	return min(max(wait, s.minDenial), s.maxDenial)
}

// wants returns the size of a lease: how many extra tokens to ask for beside those in
// hand. If the store has plenty, that is the demand of the time ahead. If the store has
// little and a check calls it anyway, it is at least the demand of a quarter of that
// time, but no more than what refills until the next call.
func (e *entry) wants(now int64, anyway bool) int64 {
	ahead := float64(e.size.ahead)
	expected, smoothed := e.demand.rateAt(now, e.size.ahead)*ahead, e.demand.rate*ahead
	if expected < leastDemand {
		return 0
	}
	most := e.size.affordable(expected, smoothed, e.last.Remaining)
	if anyway {
		most = max(most, min(int64(smoothed/shareOfTime), e.size.quarterRefill))
	}
	return max(0, most-e.inHand(now))
}

// affordable returns how many of the left tokens a lease may take. expected is the demand
// in the time ahead, and smoothed is the demand by the smoothed rate alone. Tokens that
// are refunded to a bucket late are lost, because the bucket has mostly refilled by then.
// So once a bucket is less than half full, a lease takes at most a part of the smoothed
// demand, in proportion to how full the bucket is.
func (s *size) affordable(expected, smoothed float64, left int64) int64 {
	if full := float64(left) * 2 / float64(s.limit); s.refills && full < 1 {
		expected = math.Floor(min(expected, smoothed) * full)
	}
	return min(int64(math.Ceil(expected)), left/shareOfRest)
}

// leastDemand is the least demand, in units in the time ahead, for which a node holds a
// lease. Below it, more tokens would be refunded than spent.
const leastDemand = 0.5

// isLow reports whether the tokens in hand last for no more than three ticks. A renewal
// that starts later could arrive too late.
func (e *entry) isLow(now int64) bool {
	return float64(e.inHand(now)) <= e.demand.rateAt(now, e.size.ahead)*float64(3*e.size.tick)
}

// demand measures the requested units per microsecond, denied requests included.
type demand struct {
	since, used int64   // the start of the current interval, and the units since then
	first       int64   // the part of used that began the interval: one request is no rate
	rate        float64 // the smoothed rate of past intervals
}

// add counts a request. The weight of the old rate falls with its age, to 0 after the
// given time.
func (p *demand) add(cost, now, time int64) {
	if age := now - p.since; age >= time/shareOfTime {
		fresh := float64(p.used) / float64(age)
		p.rate += (fresh - p.rate) * min(1, float64(age)/float64(time))
		p.since, p.used, p.first = now, 0, cost
	}
	p.used += cost
}

// undo takes back what was counted just now.
func (p *demand) undo(cost int64) { p.used = max(0, p.used-cost) }

// rateAt returns the demand now: the greater of the smoothed rate and the rate of the
// current interval, but at most what a silence since the interval's start allows.
func (p *demand) rateAt(now, time int64) float64 {
	age := now - p.since
	lately := float64(p.used-p.first) / float64(max(age, time/shareOfTime))
	return min(max(p.rate, lately), float64(p.used+1)/float64(max(age, 1)))
}
