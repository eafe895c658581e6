package oracle

import (
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
	before := l.read(state)
	alone := l.stands(now, before)
	alone.Allowed = true
	switch {
	case c.Cost == stint.Forget:
		fresh := l.stands(now, l.read(nil))
		fresh.Allowed = true
		return verdict{alone, fresh, nil, true}
	case c.Cost < 0:
		return l.judgeGiveBack(now, c, alone, state)
	case c.Cost > 0 && !before.admits(alone.At, c.Cost):
		alone.Allowed = false
		alone.RetryAfter = l.retry(now, before, c.Cost)
		return verdict{alone: alone}
	}
	return l.judgeTake(now, c, alone, state)
}

func (l *limit) judgeTake(now int64, c stint.Claim, alone stint.Decision, state any) verdict {
	before := l.read(state)
	granted := min(c.Extra, alone.Remaining-c.Cost)
	if c.Cost == 0 {
		granted = min(c.Extra, alone.Remaining)
	}
	v := verdict{alone: alone, charged: alone}
	if c.Cost+granted > 0 {
		v.writes = true
		v.after = before.charge(alone.At, c.Cost+granted)
		v.charged = l.stands(now, l.read(v.after))
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
	v := verdict{alone: alone, charged: l.stands(now, l.read(after)), after: after, writes: true}
	v.charged.Allowed = true
	v.charged.At = alone.At // also when the newest entry of a log is gone now
	return v
}

// stands is what a decision tells of a state whatever is asked.
func (l *limit) stands(now int64, r reading) stint.Decision {
	d := stint.Decision{Limit: l.max, At: max(now, r.newest())}
	d.Remaining = r.remaining(d.At)
	d.ResetAfter = wait(now, r, r.fresh)
	if d.Remaining < l.max {
		d.NextAfter = wait(now, r, func(t int64) bool { return r.remaining(t) > d.Remaining })
	}
	return d
}

func (l *limit) retry(now int64, r reading, cost int64) time.Duration {
	if cost > l.max {
		return stint.Never
	}
	return wait(now, r, func(t int64) bool { return r.admits(t, cost) })
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
