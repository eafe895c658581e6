package storetest

import (
	"pgregory.net/rapid"

	"github.com/stintdev/stint"
)

// refund is law 7. An immediate refund leaves the key as if the units had never
// been taken, and a later refund returns at most that much. A leaky bucket
// ignores refunds. A refund to a key without a state changes nothing. No refund
// lifts a key above its full allowance.
func refund(tb rapid.TB, b *bench) {
	b.check(tb, func(h *history) {
		t := h.drawn
		limit := drawLimit(t, "limit", everyAlgorithm...)
		c := stint.Claim{Key: h.scope + "taker", Limit: limit}
		other := stint.Claim{Key: h.scope + "other", Limit: limit}
		h.refundNothing(c)
		last := h.peek(c)
		for range h.manySteps() {
			h.pass(limit)
			c.Cost = h.drawCost(last)
			other.Cost = c.Cost
			last = h.take(c)
			h.take(other)
		}
		if last = h.peek(c); last.Remaining > 0 {
			h.takeAndReturn(c, other, rapid.Int64Range(1, last.Remaining).Draw(t, "cost"))
		}
	})
}

func (h *history) refundNothing(c stint.Claim) {
	h.Helper()
	fresh := h.peek(c)
	c.Cost = -rapid.Int64Range(1, stint.MaxCost).Draw(h.drawn, "refund")
	if d := h.take(c); d != fresh {
		h.Fatalf("%s without state: %s\nwant %s", claimText(c), decisionText(d), decisionText(fresh))
	}
}

// takeAndReturn takes a cost from c, whose state equals that of other, and
// refunds it after some time.
func (h *history) takeAndReturn(c, other stint.Claim, cost int64) {
	h.Helper()
	c.Cost = cost
	taken := h.take(c)
	sameMoment := rapid.Bool().Draw(h.drawn, "same moment")
	if !sameMoment {
		h.pass(c.Limit)
	}
	c.Cost, c.At = -cost, taken.At
	got, untouched := h.take(c), h.peek(other)
	if !got.Allowed || got.RetryAfter != 0 || got.Delay != 0 || got.Granted != 0 {
		h.Fatalf("%s: a refund is always allowed, at once: %s", claimText(c), decisionText(got))
	}
	if got.Remaining > untouched.Remaining {
		h.Fatalf("%s: %d remain, and %d had it never been taken", claimText(c), got.Remaining, untouched.Remaining)
	}
	if sameMoment && c.Limit.Algorithm() != stint.LeakyBucket && got.Remaining != untouched.Remaining {
		h.Fatalf("%s: given back at once: %s\nnever taken: %s", claimText(c), decisionText(got), decisionText(untouched))
	}
	c.Cost, c.At = -stint.MaxCost, 0
	if d := h.take(c); d.Remaining > d.Limit {
		h.Fatalf("%s: lifted above the limit: %s", claimText(c), decisionText(d))
	}
}

// forgetDrops checks that a forgotten key is as if never used.
func forgetDrops(tb rapid.TB, b *bench) {
	b.check(tb, func(h *history) {
		c, _ := h.used(everyAlgorithm...)
		c.Cost = stint.Forget
		d := h.take(c)
		fresh := h.peek(stint.Claim{Key: h.scope + "fresh", Limit: c.Limit})
		if d != fresh || h.peek(c) != fresh {
			h.Fatalf("%s: %s\nthen %s\nwant %s", claimText(c), decisionText(d), decisionText(h.peek(c)), decisionText(fresh))
		}
	})
}

// extraTakesWhatThereIs checks that a claim is granted, beside its cost, the
// lesser of its Extra and the units that remain.
func extraTakesWhatThereIs(tb rapid.TB, b *bench) {
	b.check(tb, func(h *history) {
		c, last := h.used(everyAlgorithm...)
		c.Cost = h.drawCost(last)
		c.Extra = rapid.Int64Range(0, min(2*last.Limit, stint.MaxCost)).Draw(h.drawn, "extra")
		before := h.peek(c)
		d := h.take(c)
		want := int64(0)
		if before.Remaining >= c.Cost {
			want = min(c.Extra, before.Remaining-c.Cost)
		}
		if d.Allowed != (before.Remaining >= c.Cost) || d.Granted != want {
			h.Fatalf("%s when %d remained: %s", claimText(c), before.Remaining, decisionText(d))
		}
		if d.Allowed && d.Remaining != before.Remaining-c.Cost-want {
			h.Fatalf("%s when %d remained: %s", claimText(c), before.Remaining, decisionText(d))
		}
	})
}
