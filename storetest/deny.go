package storetest

import (
	"pgregory.net/rapid"

	"github.com/stintdev/stint"
)

// denyIsFree is law 1: two keys with the same charges have equal states, even if
// one of them also had denials and peeks.
func denyIsFree(tb rapid.TB, b *bench) {
	b.check(tb, func(h *history) {
		t := h.drawn
		limit := drawLimit(t, "limit", everyAlgorithm...)
		asked := stint.Claim{Key: h.scope + "asked", Limit: limit}
		spared := stint.Claim{Key: h.scope + "spared", Limit: limit}
		last := h.peek(asked)
		for range h.manySteps() {
			if h.restless(asked) {
				h.passOrJump(limit)
			} else {
				h.pass(limit)
			}
			asked.Cost = h.drawCost(last)
			asked.MaxDelay = h.drawMaxDelay(limit, last)
			spared.Cost, spared.MaxDelay = asked.Cost, asked.MaxDelay
			if last = h.take(asked); !last.Allowed {
				continue
			}
			if other := h.take(spared); other != last {
				h.Fatalf("%s at %d: %s\nand for a key that was not denied before: %s",
					claimText(asked), h.now(), decisionText(last), decisionText(other))
			}
		}
		if one, other := h.peek(asked), h.peek(spared); one != other {
			h.Fatalf("at %d a key that was denied stands at %s\nand one that was not at %s", h.now(), decisionText(one), decisionText(other))
		}
	})
}
