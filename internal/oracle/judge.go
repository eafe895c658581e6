package oracle

import (
	"math"
	"sort"
	"time"

	"github.com/stintdev/stint"
)

// reading is a state as one limit reads it. Every t is at or after newest.
type reading interface {
	newest() int64                           // the newest time in the state; 0 without one
	admits(t, cost int64) bool               // would this cost be allowed at t?
	remaining(t int64) int64                 // whole units that would be
	fresh(t int64) bool                      // is it at t as if never used?
	charge(t, cost int64) any                // the state after
	giveBack(t, cost, at int64) any          // the state after; nil: as it was
	delay(t int64) (served func(int64) bool) // when what is charged at t is served; nil: at once
}

// verdict is a claim decided: as it shows when it is not charged, and when it
// is, with the state after that.
type verdict struct {
	alone, charged stint.Decision
	after          any
	writes         bool
}

func (l *limit) judge(now int64, c stint.Claim, state any) verdict {
	before, most := l.read(state), l.greatestDelay(c)
	alone := l.stands(now, before, most)
	alone.Allowed = true
	switch {
	case c.Cost == stint.Forget:
		fresh := l.stands(now, l.read(nil), most)
		fresh.Allowed = true
		return verdict{alone, fresh, nil, true}
	case c.Cost < 0:
		return l.judgeGiveBack(now, c, alone, state)
	case c.Cost > 0 && (!before.admits(alone.At, c.Cost) || !served(now, before, most)):
		alone.Allowed = false
		alone.RetryAfter = l.retry(now, before, c.Cost, most)
		return verdict{alone: alone}
	}
	return l.judgeTake(now, c, alone, state)
}

func (l *limit) judgeTake(now int64, c stint.Claim, alone stint.Decision, state any) verdict {
	before, most := l.read(state), l.greatestDelay(c)
	// What is granted beside the cost has no place of its own in a queue.
	granted := min(c.Extra, before.remaining(alone.At)-c.Cost)
	v := verdict{alone: alone, charged: alone}
	if c.Cost+granted > 0 {
		v.writes = true
		v.after = before.charge(alone.At, c.Cost+granted)
		v.charged = l.stands(now, l.read(v.after), most)
	}
	v.charged.Allowed = true
	v.charged.Granted = granted
	if served := before.delay(alone.At); served != nil {
		v.charged.Delay = wait(now, before, served)
	}
	return v
}

func (l *limit) judgeGiveBack(now int64, c stint.Claim, alone stint.Decision, state any) verdict {
	if state == nil {
		return verdict{alone: alone, charged: alone}
	}
	at := c.At
	if at == 0 {
		at = alone.At
	}
	after := l.read(state).giveBack(alone.At, -c.Cost, at)
	if after == nil {
		return verdict{alone: alone, charged: alone}
	}
	v := verdict{alone: alone, charged: l.stands(now, l.read(after), l.greatestDelay(c)), after: after, writes: true}
	v.charged.Allowed = true
	v.charged.At = alone.At // also when the newest entry of a log is gone now
	return v
}

// stands is what a decision tells of a state whatever is asked, to a caller
// that can use delays of at most most.
func (l *limit) stands(now int64, r reading, most int64) stint.Decision {
	d := stint.Decision{Limit: l.max, At: max(now, r.newest())}
	d.Remaining = l.remaining(now, r, most)
	d.ResetAfter = wait(now, r, r.fresh)
	if l.admitsAfter(now, l.read(nil), d.Remaining, most) {
		d.NextAfter = time.Duration(min(least(func(e int64) bool {
			return l.admitsAfter(now+e, r, d.Remaining, most)
		}), longest)) * time.Microsecond
	}
	return d
}

// remaining is how many requests of cost 1 are admitted one after the other.
func (l *limit) remaining(now int64, r reading, most int64) int64 {
	n := r.remaining(max(now, r.newest()))
	if most == anyDelay {
		return n
	}
	return int64(sort.Search(int(n), func(before int) bool { return !l.admitsAfter(now, r, int64(before), most) }))
}

// admitsAfter reports whether a request of cost 1 is admitted behind others
// that have cost so much.
func (l *limit) admitsAfter(now int64, r reading, before, most int64) bool {
	t := max(now, r.newest())
	if r.remaining(t) <= before {
		return false
	}
	if before > 0 && most != anyDelay {
		r = l.read(r.charge(t, before))
	}
	return served(now, r, most)
}

// anyDelay bounds no delay.
const anyDelay = math.MaxInt64

// greatestDelay is what a limit and a claim on it allow, in microseconds.
func (l *limit) greatestDelay(c stint.Claim) int64 {
	switch {
	case l.algorithm != stint.LeakyBucket:
		return anyDelay
	case c.MaxDelay < 0:
		return 0
	case c.MaxDelay == 0:
		return l.maxWait
	}
	return min(l.maxWait, int64(c.MaxDelay/time.Microsecond))
}

// served reports whether what is charged now is served within most.
func served(now int64, r reading, most int64) bool {
	if most == anyDelay {
		return true
	}
	done := r.delay(max(now, r.newest()))
	return done == nil || done(max(now+most, r.newest()))
}

func (l *limit) retry(now int64, r reading, cost, most int64) time.Duration {
	if cost > l.max {
		return stint.Never
	}
	return time.Duration(min(least(func(e int64) bool {
		return r.admits(max(now+e, r.newest()), cost) && served(now+e, r, most)
	}), longest)) * time.Microsecond
}

// longest is the longest wait told, in microseconds, short of never. Only a
// change of limits or a clock that ran far back can reach it.
const longest = 1<<53 - 1

// wait is the least time from now after which yes holds, with time standing
// still at the newest time in the state until now has reached it.
func wait(now int64, r reading, yes func(t int64) bool) time.Duration {
	d := least(func(d int64) bool { return yes(max(now+d, r.newest())) })
	return time.Duration(min(d, longest)) * time.Microsecond
}

// least returns the least d ≥ 0 for which yes holds. Once yes holds, it holds
// for all greater d. Beyond 2^60 it does not
// look.
func least(yes func(d int64) bool) int64 {
	if yes(0) {
		return 0
	}
	no, high := int64(0), int64(1)
	for !yes(high) && high < 1<<60 {
		no, high = high, 2*high
	}
	for high-no > 1 {
		if mid := no + (high-no)/2; yes(mid) {
			high = mid
		} else {
			no = mid
		}
	}
	return high
}
