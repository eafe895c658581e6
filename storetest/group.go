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
			claims := p.claims()
			before := h.peekAll(claims)
			decisions := h.takeGroups(stint.Group{Claims: claims})
			h.checkCharged(claims, before, decisions, admitted(claims, decisions))
		}
	})
}

func (h *history) peekAll(claims []stint.Claim) []stint.Decision {
	h.Helper()
	var out []stint.Decision
	for _, c := range claims {
		out = append(out, h.peek(c))
	}
	return out
}

// checkCharged checks the effect of a part of a group on its keys.
func (h *history) checkCharged(claims []stint.Claim, before, decisions []stint.Decision, charged bool) {
	h.Helper()
	after := h.peekAll(claims)
	for i, c := range claims {
		if alone := before[i].Remaining >= c.Cost; decisions[i].Allowed != alone {
			h.Fatalf("%s in [%s]: %d remained, decided %s", claimText(c), claimsText(claims), before[i].Remaining, decisionText(decisions[i]))
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

// admitted reports whether a part of a group was admitted, given its decisions.
func admitted(claims []stint.Claim, decisions []stint.Decision) bool {
	_, binding := stint.Combine(claims, decisions)
	return binding.Allowed
}

// shadowsFollow is the last part of law 6: a shadow is charged only if it and the
// group that it observes are admitted. A group without claims is admitted, and a
// dry group charges nothing.
func shadowsFollow(tb rapid.TB, b *bench) {
	b.check(tb, func(h *history) {
		p := h.drawPool()
		for range h.manySteps() {
			h.takeObserved(h.drawObserved(p))
		}
	})
}

// drawObserved draws a group with shadows. No two of its parts share a state. The limits
// of a history stay the same: a store that forgets may do so between two calls with a
// state that was idle under an earlier limit.
func (h *history) drawObserved(p *pool) stint.Group {
	h.pass(p.limit())
	var g stint.Group
	if rapid.IntRange(0, 4).Draw(h.drawn, "without claims") > 0 {
		g.Claims = p.claims()
	}
	for i := range rapid.IntRange(1, 3).Draw(h.drawn, "shadows") {
		seen := &pool{h: h, limits: p.limits}
		for j := range p.keys {
			seen.keys = append(seen.keys, fmt.Sprint(h.scope, "shadow ", i, j))
		}
		g.Shadows = append(g.Shadows, seen.claims())
	}
	g.Dry = rapid.IntRange(0, 4).Draw(h.drawn, "dry") == 0
	return g
}

// takeObserved takes a group and checks which of its parts were charged.
func (h *history) takeObserved(g stint.Group) {
	h.Helper()
	var before [][]stint.Decision
	for i := range g.Parts() {
		before = append(before, h.peekAll(g.Part(i)))
	}
	out := h.takeGroups(g)
	charged := !g.Dry && admitted(g.Claims, out[:len(g.Claims)])
	for i := range g.Parts() {
		claims := g.Part(i)
		own := out[:len(claims)]
		out = out[len(claims):]
		h.checkCharged(claims, before[i], own, charged && admitted(claims, own))
	}
}

// dryChargesNothing checks that a dry group is decided as it would be, and leaves
// every key unchanged, those of its shadows too.
func dryChargesNothing(tb rapid.TB, b *bench) {
	h := b.scripted(tb)
	for i, l := range limitsOf(10) {
		c := stint.Claim{Key: fmt.Sprint(h.scope, i), Limit: l, Cost: 4}
		seen := c
		seen.Key += " shadow"
		for _, cost := range []int64{4, 11, stint.Forget} {
			c.Cost = cost
			out := h.takeGroups(stint.Group{Claims: []stint.Claim{c}, Shadows: [][]stint.Claim{{seen}}, Dry: true})
			if out[0].Allowed != (cost != 11) || out[0].Remaining != 10 || !out[1].Allowed || out[1].Remaining != 10 {
				tb.Errorf("dry, %s: %s, and its shadow %s", claimText(c), decisionText(out[0]), decisionText(out[1]))
			}
		}
		c.Cost = 4
		h.takeGroups(stint.Group{Claims: []stint.Claim{c}})
		c.Cost = stint.Forget
		h.takeGroups(stint.Group{Claims: []stint.Claim{c}, Dry: true})
		if own, shadow := h.peek(c), h.peek(seen); own.Remaining != 6 || shadow.Remaining != 10 {
			tb.Errorf("after dry groups, %v: %s, and the shadow's key %s", l, decisionText(own), decisionText(shadow))
		}
	}
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
	h.takeGroups(stint.Group{}, stint.Group{Shadows: [][]stint.Claim{nil}}, stint.Group{Dry: true})
	var g stint.Group
	for i := range 100 {
		g.Claims = append(g.Claims, stint.Claim{Key: fmt.Sprint(h.scope, i), Limit: limitsOf(10)[i%7], Cost: 4})
	}
	h.takeGroups(g)
	short := g.Claims[70]
	short.Cost = 5
	h.take(short)
	out, after := h.takeGroups(g), h.peekAll(g.Claims)
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
