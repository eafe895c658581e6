package storetest

import (
	"context"
	"fmt"
	"strings"
	"time"

	"pgregory.net/rapid"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/oracle"
)

const (
	year2026 = 1_767_225_600_000_000 // most histories begin in 2026 or 2027
	lastTime = 1<<53 - 1             // the end of time of every history, in the year 2255
)

// history is one sequence of calls on a store, under its own keys.
type history struct {
	rapid.TB
	*bench
	drawn   *rapid.T // source of random values; nil for a scripted history
	scope   string
	model   *oracle.Model // checks every call; nil: no check
	moments []int64       // times at which something changes, newest last
}

// history returns a random history.
func (b *bench) history(t *rapid.T) *history {
	h := b.scripted(t)
	h.drawn = t
	switch rapid.IntRange(0, 9).Draw(t, "era") {
	case 0:
		b.clock.Store(rapid.Int64Range(1, 10_000_000).Draw(t, "start"))
	case 1:
		b.clock.Store(7_200_000_000_000_000 + rapid.Int64Range(0, 1<<40).Draw(t, "start"))
	default:
		b.clock.Store(year2026 + rapid.Int64Range(0, 1<<45).Draw(t, "start"))
	}
	return h
}

// scripted returns a history that draws nothing.
func (b *bench) scripted(tb rapid.TB) *history {
	return &history{TB: tb, bench: b, scope: b.newScope()}
}

func (h *history) now() int64 { return h.clock.Load() }

// take takes one claim.
func (h *history) take(c stint.Claim) stint.Decision {
	h.Helper()
	d, err := h.store.Take(context.Background(), c)
	if err != nil {
		h.Fatalf("at %d: Take(%s): %v", h.now(), claimText(c), err)
	}
	h.judge([]stint.Group{{Claims: []stint.Claim{c}}}, []stint.Decision{d})
	return d
}

func (h *history) peek(c stint.Claim) stint.Decision {
	h.Helper()
	c.Cost, c.Extra, c.At, c.MaxDelay, c.AnyOf = 0, 0, 0, 0, 0
	return h.take(c)
}

// takeGroups takes groups in one call.
func (h *history) takeGroups(groups ...stint.Group) []stint.Decision {
	h.Helper()
	claims, _ := stint.Sizes(groups)
	out := make([]stint.Decision, claims)
	if err := h.store.TakeGroups(context.Background(), groups, out); err != nil {
		h.Fatalf("at %d: TakeGroups(%s): %v", h.now(), groupsText(groups), err)
	}
	h.judge(groups, out)
	return out
}

// judge compares an answer with the model's, and records the times in it as
// moments.
func (h *history) judge(groups []stint.Group, got []stint.Decision) {
	h.Helper()
	for _, d := range got {
		h.note(d)
	}
	if h.model == nil {
		return
	}
	now := h.now()
	if h.keeps {
		if want := h.model.TakeGroups(now, groups); !equal(got, want) {
			h.Fatalf("at %d, %s:\n%s", now, groupsText(groups), difference(got, want))
		}
	} else if want, ok := h.model.Follow(now, groups, got); !ok {
		h.Fatalf("at %d, %s:\n%s", now, groupsText(groups), difference(got, want))
	}
}

func (h *history) note(d stint.Decision) {
	for _, wait := range []time.Duration{d.RetryAfter, d.ResetAfter, d.NextAfter, d.Delay} {
		if wait > 0 && wait < stint.MaxWindow {
			h.moments = append(h.moments, h.now()+wait.Microseconds())
		}
	}
	h.moments = h.moments[max(0, len(h.moments)-12):]
}

// restless reports whether no store may forget the state of the claim. Time may
// then run back, and the limit may change.
func (h *history) restless(c stint.Claim) bool {
	return h.keeps || h.peek(c).ResetAfter > 0
}

func equal(got, want []stint.Decision) bool {
	for i := range want {
		if got[i] != want[i] {
			return false
		}
	}
	return len(got) == len(want)
}

func difference(got, want []stint.Decision) string {
	var b strings.Builder
	for i := range want {
		fmt.Fprintf(&b, "claim %d  got %s\n", i, decisionText(got[i]))
		if got[i] != want[i] {
			fmt.Fprintf(&b, "        want %s\n", decisionText(want[i]))
		}
	}
	return b.String()
}

func decisionText(d stint.Decision) string {
	retry := fmt.Sprint(d.RetryAfter)
	if d.RetryAfter == stint.Never {
		retry = "never"
	}
	return fmt.Sprintf("allowed=%v limit=%d remaining=%d retry=%s reset=%v next=%v delay=%v granted=%d at=%d degraded=%v",
		d.Allowed, d.Limit, d.Remaining, retry, d.ResetAfter, d.NextAfter, d.Delay, d.Granted, d.At, d.Degraded)
}

func claimText(c stint.Claim) string {
	text := fmt.Sprintf("%q cost %d", c.Key, c.Cost)
	if c.Cost == stint.Forget {
		text = fmt.Sprintf("%q forget", c.Key)
	}
	if c.Extra != 0 {
		text += fmt.Sprintf(" extra %d", c.Extra)
	}
	if c.At != 0 {
		text += fmt.Sprintf(" at %d", c.At)
	}
	if c.MaxDelay != 0 {
		text += fmt.Sprintf(" within %v", c.MaxDelay)
	}
	if c.AnyOf != 0 {
		text += fmt.Sprintf(" any %d", c.AnyOf)
	}
	return text + " of " + c.Limit.String()
}

func groupsText(groups []stint.Group) string {
	var b strings.Builder
	for _, g := range groups {
		b.WriteString("[")
		if g.Dry {
			b.WriteString("dry: ")
		}
		b.WriteString(claimsText(g.Claims))
		for _, shadow := range g.Shadows {
			b.WriteString(" | shadow: " + claimsText(shadow))
		}
		b.WriteString("]")
	}
	return b.String()
}

func claimsText(claims []stint.Claim) string {
	var texts []string
	for _, c := range claims {
		texts = append(texts, claimText(c))
	}
	return strings.Join(texts, "; ")
}
