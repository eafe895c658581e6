package decisionlog

import (
	"math"
	"sync/atomic"
	"time"
)

// rates bound the lines of denied and degraded decisions.
//
// The rate is a hard bound on all rules together, and no rule may use up the lines of another.
// So one half of the rate is reserved: each rule has an equal part of it, whether it uses the
// part or not. The other half is common, for whichever rule comes first.
//
// With more rules than reserved lines a second, a part would be less than one line. Each rule
// then has one reserved line in a round, and a round is as many seconds as it takes all rules to
// have one. A rule that has had its line waits for a whole round before the next, while the
// reserved lines of each second go to the rules that have not. So a rule that is denied
// something in every second waits for at most one round: in that time there are as many
// reserved lines as rules, and every other rule can take only one.
type rates struct {
	part     atomic.Pointer[part]
	reserved window // lines of all rules out of their own parts
	common   window // lines of all rules beyond their own parts
}

// part is what each rule has of the reserved lines: a number of lines in a number of seconds.
type part struct {
	lines, seconds   int64
	reserved, common int64 // lines a second of all rules
}

// divide divides a rate among a number of rules, of which the lists and takes are two.
func (r *rates) divide(rate, rules int) {
	reserved := (rate + 1) / 2
	r.part.Store(&part{
		lines: int64(max(1, reserved/rules)), seconds: int64((rules + reserved - 1) / reserved),
		reserved: int64(reserved), common: int64(rate - reserved),
	})
}

// admits reports whether a denied or degraded decision may be logged now, and counts it then.
func (r *rates) admits(s *share, now time.Time) bool {
	second, p := uint32(now.Unix()), r.part.Load()
	if s.own.take(second, p.lines, p.seconds) {
		if r.reserved.take(second, p.reserved, 1) {
			return true
		}
		s.own.untake(second)
	}
	return r.common.take(second, p.common, 1)
}

// window counts lines from a second on. The upper half of the number is the second.
type window struct{ packed atomic.Uint64 }

// take counts a line if there are fewer than most in a number of seconds.
func (w *window) take(second uint32, most, seconds int64) bool {
	for {
		old := w.packed.Load()
		n := int64(old & math.MaxUint32)
		if int64(second-uint32(old>>32)) >= seconds { // a clock that goes back begins anew, too
			n = 0
		}
		if n >= most {
			return false
		}
		if w.packed.CompareAndSwap(old, uint64(second)<<32|uint64(n+1)) {
			return true
		}
	}
}

// untake forgets a line of this second.
func (w *window) untake(second uint32) {
	for {
		old := w.packed.Load()
		if uint32(old>>32) != second || old&math.MaxUint32 == 0 || w.packed.CompareAndSwap(old, old-1) {
			return
		}
	}
}
