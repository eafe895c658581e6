package storetest

import (
	"time"

	"pgregory.net/rapid"

	"github.com/stintdev/stint"
)

// truthfulRetry is law 2: waiting exactly the retry time succeeds, and one
// microsecond less fails.
func truthfulRetry(tb rapid.TB, b *bench) {
	b.check(tb, func(h *history) {
		t := h.drawn
		c := stint.Claim{Key: h.scope, Limit: drawMaxWait(t, drawLimit(t, "limit", everyAlgorithm...))}
		last := h.peek(c)
		for range h.manySteps() {
			if h.restless(c) {
				h.passOrJump(c.Limit)
				if rapid.IntRange(0, 5).Draw(t, "change") == 0 {
					h.changeLimit(&c)
				}
			} else {
				h.pass(c.Limit)
			}
			c.Cost, c.MaxDelay = h.drawCost(last), h.drawMaxDelay(c.Limit, last)
			if last = h.take(c); last.Allowed {
				h.delaysWithin(c, last)
				if last.RetryAfter != 0 {
					h.Fatalf("allowed, and asked to retry: %s", decisionText(last))
				}
				continue
			}
			h.retryIsExact(c, last)
		}
	})
}

// changeLimit changes the numbers of a claim's limit. A store that may forget
// does so by the limit under which a state was last written. Unless the store
// keeps all states, changeLimit therefore charges one unit under the new limit,
// and keeps the old limit if that charge is denied.
func (h *history) changeLimit(c *stint.Claim) {
	before := c.Limit
	c.Limit = drawMaxWait(h.drawn, drawChange(h.drawn, before))
	if c.Cost = 1; !h.keeps && !h.take(*c).Allowed {
		c.Limit = before
	}
}

// delaysWithin checks that the delay of an allowed request is at most what its
// caller and its limit allow.
func (h *history) delaysWithin(c stint.Claim, d stint.Decision) {
	h.Helper()
	most := c.Limit.Spec().MaxWait
	if c.MaxDelay != 0 && (most == 0 || c.MaxDelay < most) {
		most = max(0, c.MaxDelay)
	} else if most == 0 {
		return
	}
	if d.Delay > most {
		h.Fatalf("%s: allowed beyond %v: %s", claimText(c), most, decisionText(d))
	}
}

func (h *history) retryIsExact(c stint.Claim, denied stint.Decision) {
	h.Helper()
	start := h.now()
	if denied.RetryAfter == stint.Never || c.Cost > denied.Limit {
		if denied.RetryAfter != stint.Never || c.Cost <= denied.Limit {
			h.Fatalf("%s: never is for costs over the limit, and for all of them: %s", claimText(c), decisionText(denied))
		}
		return
	}
	if denied.RetryAfter <= 0 || start+denied.RetryAfter.Microseconds() > lastTime {
		if denied.RetryAfter <= 0 {
			h.Fatalf("%s: denied without a retry time: %s", claimText(c), decisionText(denied))
		}
		return
	}
	h.clock.Store(start + denied.RetryAfter.Microseconds() - 1)
	if d := h.take(c); d.Allowed || d.RetryAfter != time.Microsecond {
		h.Fatalf("%s: denied for %v at %d; one microsecond before that: %s", claimText(c), denied.RetryAfter, start, decisionText(d))
	}
	h.clock.Add(1)
	if d := h.take(c); !d.Allowed {
		h.Fatalf("%s: denied for %v at %d; after exactly that: %s", claimText(c), denied.RetryAfter, start, decisionText(d))
	}
}

// truthfulRetryOfGroups is law 2 for the answer of a group.
func truthfulRetryOfGroups(tb rapid.TB, b *bench) {
	b.check(tb, func(h *history) {
		p := h.drawPool()
		for range h.manySteps() {
			h.pass(p.limit())
			g := stint.Group{Claims: p.claims()}
			_, answer := stint.Combine(g.Claims, h.takeGroups(g))
			if answer.Allowed || answer.RetryAfter == stint.Never || h.now()+answer.RetryAfter.Microseconds() > lastTime {
				continue
			}
			h.clock.Add(answer.RetryAfter.Microseconds() - 1)
			if _, early := stint.Combine(g.Claims, h.takeGroups(g)); early.Allowed {
				h.Fatalf("%s: denied for %v, admitted one microsecond before", groupsText([]stint.Group{g}), answer.RetryAfter)
			}
			h.clock.Add(1)
			if _, due := stint.Combine(g.Claims, h.takeGroups(g)); !due.Allowed {
				h.Fatalf("%s: denied for %v, and again after exactly that for %v", groupsText([]stint.Group{g}), answer.RetryAfter, due.RetryAfter)
			}
		}
	})
}
