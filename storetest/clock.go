package storetest

import (
	"time"

	"pgregory.net/rapid"

	"github.com/stintdev/stint"
)

// timeNeverRunsBack is law 4: a claim before the newest time in its state is
// decided as of that time, and its waits include the gap.
func timeNeverRunsBack(tb rapid.TB, b *bench) {
	b.check(tb, func(h *history) {
		t := h.drawn
		limit := drawLimit(t, "limit", everyAlgorithm...)
		early := stint.Claim{Key: h.scope + "early", Limit: limit}
		due := stint.Claim{Key: h.scope + "due", Limit: limit}
		last := h.peek(early)
		for range h.manySteps() {
			h.pass(limit)
			early.Cost = h.drawCost(last)
			due.Cost = early.Cost
			last = h.take(early)
			h.take(due)
			if h.restless(early) {
				last = h.standStill(early, due)
			}
		}
	})
}

// standStill takes the claim early before the newest time in its state, and the
// claim due, whose state is the same, at that time. It compares the decisions.
func (h *history) standStill(early, due stint.Claim) stint.Decision {
	present := h.now()
	h.clock.Store(1)
	newest := h.peek(early).At
	gap := rapid.Int64Range(0, min(newest-1, 1<<40)).Draw(h.drawn, "gap µs")
	h.clock.Store(newest - gap)
	got := h.take(early)
	h.clock.Store(newest)
	want := late(h.take(due), time.Duration(gap)*time.Microsecond)
	if got != want {
		h.Fatalf("%s, %d µs before the newest time in its state:\ngot  %s\nwant %s", claimText(early), gap, decisionText(got), decisionText(want))
	}
	h.clock.Store(max(present, newest))
	return got
}

// late returns a decision as a caller sees it whose clock is behind by gap.
func late(d stint.Decision, gap time.Duration) stint.Decision {
	for _, wait := range []*time.Duration{&d.RetryAfter, &d.ResetAfter, &d.NextAfter, &d.Delay} {
		if *wait != 0 && *wait != stint.Never {
			*wait += gap
		}
	}
	return d
}
