package storetest

import (
	"math/big"
	"time"

	"pgregory.net/rapid"

	"github.com/stintdev/stint"
)

// used draws a history on one key and returns a claim on it and the latest
// decision. The state of the key is one that no store may forget.
func (h *history) used(algorithms ...stint.Algorithm) (c stint.Claim, last stint.Decision) {
	c = stint.Claim{Key: h.scope, Limit: drawLimit(h.drawn, "limit", algorithms...)}
	last = h.peek(c)
	for range h.manySteps() {
		h.pass(c.Limit)
		c.Cost = h.drawCost(last)
		last = h.take(c)
	}
	if last = h.peek(c); last.ResetAfter == 0 {
		c.Cost = 1
		last = h.take(c)
	}
	return c, last
}

// raisingNeverWaitsLonger is law 5 for a raised limit: the wait grows by at most
// the refill of one micro-unit.
func raisingNeverWaitsLonger(tb rapid.TB, b *bench) {
	b.check(tb, func(h *history) {
		c, last := h.used(everyAlgorithm...)
		c.Cost = last.Remaining + 1
		before := h.take(c)
		c.Limit = drawRaise(h.drawn, c.Limit)
		after := h.take(c)
		if slack := microUnit(c.Limit); !after.Allowed && after.RetryAfter > before.RetryAfter+slack {
			h.Fatalf("%s: waits %v, before its limit was raised %v", claimText(c), after.RetryAfter, before.RetryAfter)
		}
	})
}

// loweringGivesNothing is law 5 for a lowered limit: it hands out no fresh
// allowance.
func loweringGivesNothing(tb rapid.TB, b *bench) {
	b.check(tb, func(h *history) {
		c, _ := h.used(everyAlgorithm...)
		high := drawRaise(h.drawn, c.Limit)
		low := c.Limit
		c.Limit = high
		before := h.peek(c)
		c.Limit = low
		after := h.peek(c)
		more := after.Remaining - before.Remaining
		if more == 1 && before.NextAfter <= microUnit(high) {
			more = 0 // the fraction of a micro-unit
		}
		if more > 0 {
			h.Fatalf("%v, lowered from %v: %s\nand before %s", low, high, decisionText(after), decisionText(before))
		}
		if low.Rate() == nil && after.Remaining > 0 && before.Remaining-after.Remaining != high.Max()-low.Max() {
			h.Fatalf("%v, lowered from %v, forgot what was used: %s\nand before %s", low, high, decisionText(after), decisionText(before))
		}
	})
}

// drawRaise draws a limit over the same state that is at least as great in every
// parameter. It rejects a limit whose rate was rounded to a smaller one, which
// can happen with a greater capacity.
func drawRaise(t *rapid.T, l stint.Limit) stint.Limit {
	return compiled(rapid.Custom(func(t *rapid.T) stint.Spec {
		s := l.Spec()
		if s.Algorithm == stint.LeakyBucket {
			s.Queue += drawUnits(t, "queue") - 1
		} else if s.Capacity > 0 {
			s.Capacity += drawUnits(t, "capacity") - 1
		}
		if s.Limit > 0 {
			s.Limit += drawUnits(t, "limit") - 1
		}
		raised := compiled(s)
		if !raised.Valid() || l.Rate() != nil && raised.Rate().Cmp(l.Rate()) < 0 {
			return l.Spec()
		}
		return s
	}).Draw(t, "raised"))
}

// microUnit returns how long a bucket takes to refill one micro-unit, rounded
// up; 0 for algorithms without a rate.
func microUnit(l stint.Limit) time.Duration {
	if l.Rate() == nil {
		return 0
	}
	num, denom := l.Rate().Num(), l.Rate().Denom() // num micro-units in denom µs
	up := new(big.Int).Add(denom, new(big.Int).Sub(num, big.NewInt(1)))
	return time.Duration(up.Div(up, num).Int64()) * time.Microsecond
}

// changingBackChangesNothing combines laws 5 and 1: a peek or a denial under
// another limit leaves the state unchanged.
func changingBackChangesNothing(tb rapid.TB, b *bench) {
	b.check(tb, func(h *history) {
		c, _ := h.used(everyAlgorithm...)
		before := h.peek(c)
		for range rapid.IntRange(1, 3).Draw(h.drawn, "changes") {
			other := c
			other.Limit = drawChange(h.drawn, c.Limit)
			if other.Cost = h.peek(other).Remaining + 1; other.Cost <= stint.MaxCost {
				h.take(other) // one more than the remaining units: denied
			}
		}
		if after := h.peek(c); after != before {
			h.Fatalf("%v:\nbefore it was changed, and changed back: %s\nand after: %s", c.Limit, decisionText(before), decisionText(after))
		}
	})
}

// anotherShapeIsFresh is the last part of law 5: a limit of the same name with
// another window, bucket count, period or anchor has its own state.
func anotherShapeIsFresh(tb rapid.TB, b *bench) {
	b.check(tb, func(h *history) {
		t := h.drawn
		c, _ := h.used(everyAlgorithm...)
		before := h.peek(c)
		s := c.Limit.Spec()
		s.Algorithm = rapid.SampledFrom(everyAlgorithm).Draw(t, "algorithm")
		other := drawLimit(t, s.Name, s.Algorithm)
		if sameShape(other.Spec(), c.Limit.Spec()) {
			return
		}
		fresh := h.take(stint.Claim{Key: c.Key, Limit: other, Cost: other.Max()})
		if !fresh.Allowed || fresh.Remaining != 0 {
			h.Fatalf("%v after %v under the same name is not fresh: %s", other, c.Limit, decisionText(fresh))
		}
		if after := h.peek(c); after != before {
			h.Fatalf("%v, when another limit had its name: %s\nand before: %s", c.Limit, decisionText(after), decisionText(before))
		}
	})
}

func sameShape(a, b stint.Spec) bool {
	// Two anchors may give the same periods, so this ignores them. A table
	// tests a change of the anchor.
	return a.Algorithm == b.Algorithm && a.Window == b.Window && a.Buckets == b.Buckets && a.Period == b.Period
}
