package storetest

import (
	"context"
	"fmt"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/storekit"
)

// rememberedCall is a group that the store must remember.
type rememberedCall struct {
	group     stint.Group
	decisions []stint.Decision
	at        int64
}

// alive reports whether the store must remember the call now.
func (c *rememberedCall) alive(now int64) bool { return now-c.at < stint.RememberFor.Microseconds() }

// repeatsChargeOnce is law 9: among other claims, a repeat of an admitted group within 60
// seconds gets the same decisions and changes no state. After that it is a new request.
// Another group with the ID is a conflict. A dry group ignores the ID.
func repeatsChargeOnce(tb rapid.TB, b *bench) {
	b.check(tb, func(h *history) {
		t, p := h.drawn, h.drawPool()
		var calls []*rememberedCall
		for i := range h.manySteps() {
			h.passForRepeat(calls)
			action := rapid.IntRange(0, 5).Draw(t, "action")
			if action < 2 || len(calls) == 0 {
				g := stint.Group{Claims: h.drawRefunds(p.claims()), Once: &stint.Once{ID: fmt.Sprint(h.scope, "call ", i)}}
				calls = append(calls, h.takeFirst(g)...)
				continue
			}
			c := rapid.SampledFrom(calls).Draw(t, "call")
			switch action {
			case 2:
				h.takeGroups(stint.Group{Claims: p.claims()})
			case 3:
				h.takeAltered(c)
			default:
				if !h.takeRepeat(c) {
					calls = slices.DeleteFunc(calls, func(o *rememberedCall) bool { return o == c })
				}
			}
		}
	})
}

// passForRepeat moves the clock by less than a minute, or to the microsecond at which a
// call is forgotten, or to the one before.
func (h *history) passForRepeat(calls []*rememberedCall) {
	t := h.drawn
	switch kind := rapid.IntRange(0, 5).Draw(t, "pass"); {
	case kind == 0:
		h.clock.Add(rapid.Int64Range(0, stint.RememberFor.Microseconds()/2).Draw(t, "pass µs"))
	case kind == 1 && len(calls) > 0:
		forgotten := rapid.SampledFrom(calls).Draw(t, "forgotten").at + stint.RememberFor.Microseconds()
		h.clock.Store(max(h.now(), forgotten-rapid.Int64Range(0, 1).Draw(t, "before")))
	}
}

// drawRefunds turns some claims into refunds.
func (h *history) drawRefunds(claims []stint.Claim) []stint.Claim {
	for i := range claims {
		if rapid.IntRange(0, 5).Draw(h.drawn, "refund") == 0 {
			claims[i].Cost, claims[i].AnyOf = -1, 0
		}
	}
	return claims
}

// takeFirst takes a group with a new ID, and returns it if the store must remember it.
func (h *history) takeFirst(g stint.Group) []*rememberedCall {
	h.Helper()
	out := h.takeGroups(g)
	if isRepeat(out) {
		h.Fatalf("%s: a new ID is decided as a repeat", groupsText([]stint.Group{g}))
	}
	if !g.Repeatable() || !admitted(g.Claims, out) {
		return nil
	}
	return []*rememberedCall{{g, out, h.now()}}
}

func isRepeat(decisions []stint.Decision) bool {
	return slices.ContainsFunc(decisions, func(d stint.Decision) bool { return d.Repeated })
}

// takeRepeat repeats a call, and reports whether the store must remember it from now on.
func (h *history) takeRepeat(c *rememberedCall) bool {
	h.Helper()
	if !c.alive(h.now()) {
		again := h.takeFirst(c.group)
		if again != nil {
			*c = *again[0]
		}
		return again != nil
	}
	before, want := h.peekAll(c.group.Claims), slices.Clone(c.decisions)
	for i := range want {
		want[i].Repeated = true
	}
	if got := h.takeGroups(c.group); !equal(got, want) {
		h.Fatalf("at %d, a repeat of %s of %d:\n%s", h.now(), groupsText([]stint.Group{c.group}), c.at, difference(got, want))
	}
	h.checkUnchanged(c.group.Claims, before)
	return true
}

// takeAltered takes another group under the ID of a call: first dry, and then to charge.
func (h *history) takeAltered(c *rememberedCall) {
	h.Helper()
	g := c.group
	if once := *g.Once; rapid.Bool().Draw(h.drawn, "body") {
		once.Body[3]++
		g.Once = &once
	} else {
		g.Claims = slices.Clone(g.Claims)
		if c := &g.Claims[0]; c.Cost > 1 || c.Cost < 0 {
			c.Cost--
		} else {
			c.Cost++
		}
	}
	before := h.peekAll(g.Claims)
	dry := g
	dry.Dry = true
	if isRepeat(h.takeGroups(dry)) {
		h.Fatalf("%s: a dry group is decided as a repeat", groupsText([]stint.Group{dry}))
	}
	if c.alive(h.now()) && g.Repeatable() {
		h.checkConflict(g)
		h.checkUnchanged(g.Claims, before)
	}
}

func (h *history) checkConflict(g stint.Group) {
	h.Helper()
	err := h.store.TakeGroups(context.Background(), []stint.Group{g}, make([]stint.Decision, len(g.Claims)))
	if errs, whole := storekit.PartErrors(err, g.Parts()); errs != nil {
		err = errs[0]
	} else {
		err = whole
	}
	if stint.CodeOf(err) != stint.CodeConflict {
		h.Fatalf("at %d, %s under the ID of another group: %v", h.now(), groupsText([]stint.Group{g}), err)
	}
}

func (h *history) checkUnchanged(claims []stint.Claim, before []stint.Decision) {
	h.Helper()
	if after := h.peekAll(claims); !equal(after, before) {
		h.Fatalf("at %d, [%s] changed:\n%s", h.now(), claimsText(claims), difference(after, before))
	}
}

// denialsAreNotRemembered checks that a denied group is decided afresh under its ID.
func denialsAreNotRemembered(tb rapid.TB, b *bench) {
	h := b.scripted(tb)
	for i, l := range limitsOf(10) {
		c := stint.Claim{Key: fmt.Sprint(h.scope, i), Limit: l, Cost: 10}
		h.take(c)
		g := stint.Group{Claims: []stint.Claim{c}, Once: &stint.Once{ID: c.Key}}
		if out := h.takeGroups(g); out[0].Allowed {
			tb.Fatalf("%v: %s", l, decisionText(out[0]))
		}
		c.Cost = stint.Forget
		h.take(c)
		if first, again := h.takeGroups(g), h.takeGroups(g); !first[0].Allowed || first[0].Repeated || !again[0].Repeated {
			tb.Errorf("%v: after a denial %s, and then %s", l, decisionText(first[0]), decisionText(again[0]))
		}
	}
}

// shadowsOfRepeats checks that a repeat does not charge its shadows, and that a group may
// be repeated within one call.
func shadowsOfRepeats(tb rapid.TB, b *bench) {
	h := b.scripted(tb)
	for i, l := range limitsOf(10) {
		c := stint.Claim{Key: fmt.Sprint(h.scope, i), Limit: l, Cost: 3}
		seen := c
		seen.Key += " shadow"
		g := stint.Group{Claims: []stint.Claim{c}, Shadows: [][]stint.Claim{{seen}}, Once: &stint.Once{ID: c.Key}}
		out := append(h.takeGroups(g, g), h.takeGroups(g)...)
		for j, d := range out {
			if !d.Allowed || d.Repeated != (j == 2 || j == 4) {
				tb.Errorf("%v: decision %d is %s, repeated: %v", l, j, decisionText(d), d.Repeated)
			}
		}
		if own, shadow := h.peek(c), h.peek(seen); own.Remaining != 7 || shadow.Remaining != 7 {
			tb.Errorf("%v: %s, and the shadow's key %s", l, decisionText(own), decisionText(shadow))
		}
	}
}

// repeatedRefundsRefundOnce checks a refund that its caller repeats.
func repeatedRefundsRefundOnce(tb rapid.TB, b *bench) {
	h := b.scripted(tb)
	for i, l := range limitsOf(10) {
		c := stint.Claim{Key: fmt.Sprint(h.scope, i), Limit: l, Cost: 6}
		c.At = h.take(c).At
		c.Cost = -2
		g := stint.Group{Claims: []stint.Claim{c}, Once: &stint.Once{ID: c.Key}}
		first, again := h.takeGroups(g), h.takeGroups(g)
		want := int64(6)
		if l.Algorithm() == stint.LeakyBucket { // which ignores refunds
			want = 4
		}
		if d := h.peek(c); d.Remaining != want || first[0].Repeated || !again[0].Repeated || again[0].Remaining != want {
			tb.Errorf("%v: %s, repeated %s, and then %s", l, decisionText(first[0]), decisionText(again[0]), decisionText(d))
		}
	}
}

// wrongIDs checks that an ID out of bounds fails its group alone.
func wrongIDs(tb rapid.TB, b *bench) {
	h := b.scripted(tb)
	c := stint.Claim{Key: h.scope, Limit: limitsOf(10)[0], Cost: 1}
	for _, n := range []int{0, stint.MaxOnceID + 1} {
		g := stint.Group{Claims: []stint.Claim{c}, Once: &stint.Once{ID: string(make([]byte, n))}}
		out := make([]stint.Decision, 2)
		err := h.store.TakeGroups(context.Background(), []stint.Group{g, {Claims: g.Claims}}, out)
		if errs, _ := storekit.PartErrors(err, 2); errs == nil || stint.CodeOf(errs[0]) != stint.CodeInvalid || errs[1] != nil || !out[1].Allowed {
			tb.Errorf("an ID of %d bytes: %v, and %s", n, err, decisionText(out[1]))
		}
	}
	if d := h.peek(c); d.Remaining != 8 {
		tb.Errorf("after two charges: %s", decisionText(d))
	}
}

// concurrentRepeats checks that goroutines which send the same groups charge each once.
func concurrentRepeats(tb rapid.TB, b *bench) {
	h := b.scripted(tb)
	c := stint.Claim{Key: h.scope, Limit: compiled(stint.Spec{Limit: admitting, Window: time.Hour}), Cost: 1}
	fresh := storm(tb, func(i int) (bool, error) {
		g := stint.Group{Claims: []stint.Claim{c}, Once: &stint.Once{ID: fmt.Sprint(h.scope, i%attempts)}}
		out := make([]stint.Decision, 1)
		err := h.store.TakeGroups(context.Background(), []stint.Group{g}, out)
		return out[0].Allowed && !out[0].Repeated, err
	})
	if d := h.peek(c); fresh != attempts || d.Remaining != admitting-attempts {
		tb.Errorf("%d groups were charged, and then %s; want %d", fresh, decisionText(d), attempts)
	}
}
