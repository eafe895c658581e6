package storetest

import (
	"cmp"
	"math/big"
	"slices"

	"pgregory.net/rapid"

	"github.com/stintdev/stint"
)

// use is a charge: its time, the units that were not refunded, and the end of
// its window.
type use struct{ at, units, windowEnd int64 }

// envelope is law 3: in no interval is more charged than the algorithm allows.
// Refunded units do not count. A history either refunds or sets the clock back,
// but not both: a state whose newest charge was refunded may equal a fresh one,
// and its time may then run back too.
func envelope(tb rapid.TB, b *bench) {
	b.check(tb, func(h *history) {
		t := h.drawn
		c := stint.Claim{Key: h.scope, Limit: drawLimit(t, "limit", everyAlgorithm...)}
		var uses []use
		last, jumps := h.peek(c), rapid.Bool().Draw(t, "jumps back")
		for range h.manySteps() {
			if jumps && h.restless(c) {
				h.passOrJump(c.Limit)
			} else {
				h.pass(c.Limit)
			}
			if !jumps && len(uses) > 0 && rapid.IntRange(0, 4).Draw(t, "refund") == 0 {
				h.returnSome(c, &uses[rapid.IntRange(0, len(uses)-1).Draw(t, "of")])
				continue
			}
			c.Cost = h.drawCost(last)
			if last = h.take(c); last.Allowed {
				uses = append(uses, use{last.At, c.Cost, h.now() + last.ResetAfter.Microseconds()})
			}
		}
		h.checkEnvelope(c.Limit, uses)
	})
}

func (h *history) returnSome(c stint.Claim, u *use) {
	if u.units == 0 || c.Limit.Algorithm() == stint.LeakyBucket {
		return
	}
	back := rapid.Int64Range(1, u.units).Draw(h.drawn, "refund")
	c.Cost, c.At = -back, u.at
	h.take(c)
	u.units -= back
}

func (h *history) checkEnvelope(l stint.Limit, uses []use) {
	uses = slices.DeleteFunc(uses, func(u use) bool { return u.units == 0 })
	slices.SortFunc(uses, func(a, b use) int { return cmp.Compare(a.at, b.at) }) // time may run back within a window
	for i, first := range uses {
		sum := int64(0)
		for _, last := range uses[i:] {
			if sum += last.units; !within(l, first, last, sum) {
				h.Fatalf("%v: %d units from %d to %d", l, sum, first.at, last.at)
			}
		}
	}
}

// within reports whether the limit allows sum units from first to last, both
// included.
func within(l stint.Limit, first, last use, sum int64) bool {
	span, w, s := last.at-first.at, l.Window().Microseconds(), l.Spec()
	switch l.Algorithm() {
	case stint.FixedWindow:
		return first.at/w != last.at/w || sum <= l.Max()
	case stint.Quota:
		return first.windowEnd != last.windowEnd || sum <= l.Max()
	case stint.SlidingWindowLog:
		return span >= w || sum <= l.Max()
	case stint.SlidingWindowCounter:
		if span <= w-w/int64(s.Buckets) {
			return sum <= l.Max()
		}
		return span >= w || sum < 2*l.Max()
	}
	refilled := new(big.Rat).Mul(l.Rate(), big.NewRat(span, 1_000_000))
	return new(big.Rat).SetInt64(sum-l.Max()).Cmp(refilled) <= 0
}
