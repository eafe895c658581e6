package storetest

import (
	"pgregory.net/rapid"

	"github.com/stintdev/stint"
)

// callersLimitsAreApart checks that a limit with the mark FromCaller shares no
// state with the same limit without the mark, alone and in groups of both.
func callersLimitsAreApart(tb rapid.TB, b *bench) {
	b.check(tb, func(h *history) {
		t := h.drawn
		spec := drawLimit(t, "limit", everyAlgorithm...).Spec()
		spec.Rule = "rule" // a store may treat a limit without a scope as its caller's own
		own := stint.Claim{Key: h.scope + "k", Limit: compiled(spec), Cost: 1}
		spec.FromCaller = true
		brought := own
		brought.Limit = compiled(spec)
		h.takeAllOf(brought, own)
		h.takeAllOf(own, brought)
		h.takeGroups(stint.Group{Claims: []stint.Claim{own, brought}})
		brought.Cost = stint.Forget
		before := h.peek(own)
		h.take(brought)
		if after := h.peek(own); after != before {
			h.Fatalf("%v: forgetting the limit of a caller changed the other's state: %s\nbefore %s", own.Limit, decisionText(after), decisionText(before))
		}
	})
}

// takeAllOf uses up c, and checks that the state of other does not change.
func (h *history) takeAllOf(c, other stint.Claim) {
	h.Helper()
	before := h.peek(other)
	if c.Cost = h.peek(c).Remaining; c.Cost > 0 {
		h.take(c)
	}
	if after := h.peek(other); after != before {
		h.Fatalf("%s changed the state of the same limit that is marked otherwise: %s\nbefore %s", claimText(c), decisionText(after), decisionText(before))
	}
}
