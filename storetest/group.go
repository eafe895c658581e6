package storetest

import (
	"fmt"

	"pgregory.net/rapid"

	"github.com/stintdev/stint"
)

// allOrNone is law 6: a denied group leaves every key unchanged. An admitted
// group charges every claim; of a set of alternatives, it charges each claim
// that admits.
func allOrNone(tb rapid.TB, b *bench) {
	b.check(tb, func(h *history) {
		p := h.drawPool()
		for range h.manySteps() {
			h.pass(p.limit())
			g := p.group()
			before := h.peekAll(g)
			decisions := h.takeGroups(g)
			h.checkCharged(g, before, decisions, admitted(g, decisions))
		}
	})
}

func (h *history) peekAll(g stint.Group) []stint.Decision {
	h.Helper()
	var out []stint.Decision
	for _, c := range g.Claims {
		out = append(out, h.peek(c))
	}
	return out
}

// checkCharged checks the effect of a group on its keys.
func (h *history) checkCharged(g stint.Group, before, decisions []stint.Decision, charged bool) {
	h.Helper()
	after := h.peekAll(g)
	for i, c := range g.Claims {
		if alone := before[i].Remaining >= c.Cost; decisions[i].Allowed != alone {
			h.Fatalf("%s in %s: %d remained, decided %s", claimText(c), groupsText([]stint.Group{g}), before[i].Remaining, decisionText(decisions[i]))
		}
		want := before[i].Remaining
		if charged && decisions[i].Allowed {
			want -= c.Cost + decisions[i].Granted
		} else if after[i] != before[i] {
			h.Fatalf("%s was not charged:\nbefore %s\nafter  %s", claimText(c), decisionText(before[i]), decisionText(after[i]))
		}
		if after[i].Remaining != want || decisions[i].Remaining != want {
			h.Fatalf("%s: decided %s\nwant remaining %d, and then %s", claimText(c), decisionText(decisions[i]), want, decisionText(after[i]))
		}
	}
}

// admitted reports whether a group was admitted, given its decisions.
func admitted(g stint.Group, decisions []stint.Decision) bool {
	_, binding := stint.Combine(g.Claims, decisions)
	return binding.Allowed
}

// shadowFollows is the last part of law 6: a shadow group is charged only if it
// and the enforced group before it are admitted.
func shadowFollows(tb rapid.TB, b *bench) {
	b.check(tb, func(h *history) {
		p, observing := h.drawPool(), h.drawPool()
		for i := range observing.keys {
			observing.keys[i] += "/shadow"
		}
		for range h.manySteps() {
			h.pass(p.limit())
			enforced, shadow := p.group(), observing.group()
			shadow.Shadow = true
			before := h.peekAll(shadow)
			enforcedBefore := h.peekAll(enforced)
			out := h.takeGroups(enforced, shadow)
			n := len(enforced.Claims)
			both := admitted(enforced, out[:n]) && admitted(shadow, out[n:])
			h.checkCharged(shadow, before, out[n:], both)
			h.checkCharged(enforced, enforcedBefore, out[:n], admitted(enforced, out[:n]))
		}
	})
}

// batchEqualsSingles checks that groups of one claim in one call are decided like
// the same claims in single calls.
func batchEqualsSingles(tb rapid.TB, b *bench) {
	b.check(tb, func(h *history) {
		t, p := h.drawn, h.drawPool()
		for range max(1, h.manySteps()/8) {
			h.pass(p.limit())
			var groups []stint.Group
			var singles []stint.Decision
			for range rapid.IntRange(0, 40).Draw(t, "groups") {
				c := stint.Claim{Key: rapid.SampledFrom(p.keys).Draw(t, "key"), Limit: p.limit(), Cost: rapid.Int64Range(0, 3).Draw(t, "cost")}
				groups = append(groups, stint.Group{Claims: []stint.Claim{c}})
				c.Key += "/single"
				singles = append(singles, h.take(c))
			}
			if batch := h.takeGroups(groups...); !equal(batch, singles) {
				h.Fatalf("%s in one call (got) and one by one (want):\n%s", groupsText(groups), difference(batch, singles))
			}
		}
	})
}

// largeGroups checks that a group may have any number of claims, including zero,
// and that one denied claim denies the group.
func largeGroups(tb rapid.TB, b *bench) {
	h := b.scripted(tb)
	if out := h.takeGroups(); len(out) != 0 {
		tb.Errorf("no groups: %v", out)
	}
	h.takeGroups(stint.Group{}, stint.Group{Shadow: true})
	var g stint.Group
	for i := range 100 {
		g.Claims = append(g.Claims, stint.Claim{Key: fmt.Sprint(h.scope, i), Limit: limitsOf(10)[i%7], Cost: 4})
	}
	h.takeGroups(g)
	short := g.Claims[70]
	short.Cost = 5
	h.take(short)
	out, after := h.takeGroups(g), h.peekAll(g)
	for i, d := range out {
		want := int64(6)
		if i == 70 {
			want = 1
		}
		if d.Allowed != (i != 70) || d.Remaining != want || after[i].Remaining != want {
			tb.Fatalf("claim %d of 100: %s\nand then %s\nwant remaining %d", i, decisionText(d), decisionText(after[i]), want)
		}
	}
}
