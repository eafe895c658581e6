package lease

import (
	"math"

	"github.com/stintdev/stint"
)

// size is how much of a limit a node may hold, and for how long.
type size struct {
	life   int64 // L
	ahead  int64 // for how long a node takes tokens ahead
	tick   int64 // between two renewals
	floor  int64 // the least time for which a denial is remembered
	recall int64 // the most
	gather int64 // what refills meanwhile

	limit   int64
	ends    bool // with its window
	refills bool // by itself
}

// The share of what is left that one lease may be, and the share of L for which
// a denial is remembered at least.
const (
	shareOfRest = 8
	shareOfTime = 4
)

// microUnits is how many micro-units a unit of a bucket has.
const microUnits = 1_000_000

// newSize is that of a limit whose leases last so long, where a denial is
// remembered for time at most.
func newSize(l stint.Limit, life, time, tick int64) *size {
	n := l.Numbers()
	s := &size{life: life, ahead: min(life, max(time, life/partOfTime)), tick: tick, recall: time, limit: n.Max}
	quarter := float64(time / shareOfTime)
	switch n.Algorithm {
	case stint.TokenBucket, stint.GCRA, stint.LeakyBucket:
		s.refills = true
		s.floor = min(time, n.Fill) / shareOfTime
		s.gather = int64(float64(n.P) / float64(n.Q) / microUnits * quarter)
	case stint.FixedWindow, stint.Quota:
		s.ends = true // and begin anew at a known time, until when all is denied
		s.gather = int64(float64(n.Max) / float64(l.Window().Microseconds()) * quarter)
	default:
		s.floor = time / shareOfTime
		s.gather = int64(float64(n.Max) / float64(n.Window) * quarter)
	}
	return s
}

// lasts is how long a lease of that answer lasts from when it was asked for.
func (s *size) lasts(d *stint.Decision) int64 {
	if s.ends {
		return min(s.life, d.ResetAfter.Microseconds())
	}
	return s.life
}

// remembered is for how long a denial is remembered, whose retry time is that.
// A rest that is shorter than the least is not left over: it would be too long.
func (s *size) remembered(wait int64) int64 {
	if wait > s.recall && wait < s.recall+s.floor {
		return wait - s.floor
	}
	return min(max(wait, s.floor), s.recall)
}

// wants is how much to ask for beside what is in hand: what is asked for in the
// time ahead, where the store has plenty. Where it has not, and a check asks it
// anyway, what is asked for and what refills until the next call.
func (e *entry) wants(now int64, anyway bool) int64 {
	ahead := float64(e.size.ahead)
	pace, sure := e.demand.at(now, e.size.ahead)*ahead, e.demand.rate*ahead
	if pace < leastDemand {
		return 0
	}
	most := e.size.spare(pace, sure, e.last.Remaining)
	if anyway {
		most = max(most, min(int64(sure/shareOfTime), e.size.gather))
	}
	return max(0, most-e.inHand(now))
}

// spare is how much of what is left may go at a pace, of which some is sure.
// What goes back to a bucket has mostly refilled by then, so it is lost: as soon
// as a bucket is less than half full, leases become smaller than what is sure
// to be asked for.
func (s *size) spare(pace, sure float64, left int64) int64 {
	if full := float64(left) * 2 / float64(s.limit); s.refills && full < 1 {
		pace = math.Floor(min(pace, sure) * full)
	}
	return min(int64(math.Ceil(pace)), left/shareOfRest)
}

// leastDemand is how many units in the time ahead are worth holding one: below,
// more would go back than is used.
const leastDemand = 0.5

// isLow reports whether what is in hand will be used up before a renewal that
// is not asked for now could arrive.
func (e *entry) isLow(now int64) bool {
	return float64(e.inHand(now)) <= e.demand.at(now, e.size.ahead)*float64(3*e.size.tick)
}

// demand is how much is asked for: units a microsecond, what is denied included.
type demand struct {
	since, used int64
	first       int64 // of what was used: its request ends no gap, and is no pace alone
	rate        float64
}

// add counts a request. The older a rate, the less it weighs: nothing after
// the time ahead.
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

// at is the pace now: at least what was used lately makes it, and at most what
// a silence since makes it.
func (p *demand) at(now, time int64) float64 {
	age := now - p.since
	lately := float64(p.used-p.first) / float64(max(age, time/shareOfTime))
	return min(max(p.rate, lately), float64(p.used+1)/float64(max(age, 1)))
}
