package oracle

import (
	"math"
	"sort"
	"time"

	"github.com/stintdev/stint"
)

// reading is a state as read under one limit. Every t is at or after newest.
type reading interface {
	newest() int64                           // the newest time in the state; 0 without a state
	admits(t, cost int64) bool               // whether the cost is allowed at t
	remaining(t int64) int64                 // whole units that are allowed at t
	fresh(t int64) bool                      // whether the state equals a fresh one at t
	charge(t, cost int64) any                // returns the state after the charge
	refund(t, cost, at int64) any            // returns the state after the refund; nil: unchanged
	delay(t int64) (served func(int64) bool) // reports from when on a charge at t is served; nil: at once
}

// outcome is the decision of a claim: alone if the claim is not charged, charged
// if it is. after is the state after the charge.
type outcome struct {
	alone, charged stint.Decision
	after          any
	writes         bool
}

func (l *limit) decide(now int64, c stint.Claim, state any) outcome {
	before, most := l.read(state), l.greatestDelay(c)
	alone := l.stands(now, before, most)
	alone.Allowed = true
	switch {
	case c.Cost == stint.Forget:
		fresh := l.stands(now, l.read(nil), most)
		fresh.Allowed = true
		return outcome{alone, fresh, nil, true}
	case c.Cost < 0:
		return l.decideRefund(now, c, alone, state)
	case c.Cost > 0 && (!before.admits(alone.At, c.Cost) || !served(now, before, most)):
		alone.Allowed = false
		alone.RetryAfter = l.retry(now, before, c.Cost, most)
		return outcome{alone: alone}
	}
	return l.decideTake(now, c, alone, state)
}

func (l *limit) decideTake(now int64, c stint.Claim, alone stint.Decision, state any) outcome {
	before, most := l.read(state), l.greatestDelay(c)
	// Extra units are granted without regard to the delay: they have no place
	// of their own in a queue.
	granted := min(c.Extra, before.remaining(alone.At)-c.Cost)
	v := outcome{alone: alone, charged: alone}
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

func (l *limit) decideRefund(now int64, c stint.Claim, alone stint.Decision, state any) outcome {
	if state == nil {
		return outcome{alone: alone, charged: alone}
	}
	at := c.At
	if at == 0 {
		at = alone.At
	}
	after := l.read(state).refund(alone.At, -c.Cost, at)
	if after == nil {
		return outcome{alone: alone, charged: alone}
	}
	v := outcome{alone: alone, charged: l.stands(now, l.read(after), l.greatestDelay(c)), after: after, writes: true}
	v.charged.Allowed = true
	v.charged.At = alone.At // even if the refund removed the newest entry of a log
	return v
}

// stands returns the part of a decision that depends on the state alone and not
// on the cost, for a caller that can use delays of at most most.
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

// remaining returns how many requests of cost 1 are admitted one after the other.
func (l *limit) remaining(now int64, r reading, most int64) int64 {
	n := r.remaining(max(now, r.newest()))
	if most == anyDelay {
		return n
	}
	return int64(sort.Search(int(n), func(before int) bool { return !l.admitsAfter(now, r, int64(before), most) }))
}

// admitsAfter reports whether a request of cost 1 is admitted after others whose
// costs sum to before.
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

// anyDelay stands for no bound on the delay.
const anyDelay = math.MaxInt64

// greatestDelay returns the greatest delay that a limit and a claim on it allow,
// in microseconds.
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

// served reports whether a charge made now is served within most.
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

// longest is the longest wait in a decision other than Never, in microseconds.
// Only a change of limits or a clock that ran far back can reach it.
const longest = 1<<53 - 1

// wait returns the least time from now after which yes holds. Until now reaches
// the newest time in the state, yes sees that newest time.
func wait(now int64, r reading, yes func(t int64) bool) time.Duration {
	d := least(func(d int64) bool { return yes(max(now+d, r.newest())) })
	return time.Duration(min(d, longest)) * time.Microsecond
}

// least returns the least d ≥ 0 for which yes holds, by binary search. yes must
// be monotone: once it holds, it holds for all greater d. The search ends at
// 2^60.
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
