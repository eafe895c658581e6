package storetest

import (
	"pgregory.net/rapid"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/oracle"
)

// sameEverywhere is law 8: every field of every decision equals that of the exact
// model, for claims of every kind in any order.
func sameEverywhere(tb rapid.TB, b *bench) {
	b.check(tb, func(h *history) {
		h.model = oracle.New()
		p := h.drawPool()
		for i := range p.limits {
			p.limits[i] = drawMaxWait(h.drawn, p.limits[i])
		}
		for range h.manySteps() {
			h.passOrJump(p.limit())
			if rapid.IntRange(0, 9).Draw(h.drawn, "change") == 0 {
				p.change()
			}
			h.takeGroups(p.mixed()...)
		}
	})
}

// change changes the numbers of one limit, and sometimes its shape.
func (p *pool) change() {
	t := p.h.drawn
	i := rapid.IntRange(0, len(p.limits)-1).Draw(t, "changed")
	if rapid.IntRange(0, 3).Draw(t, "reshape") == 0 {
		p.limits[i] = drawLimit(t, p.limits[i].Name(), everyAlgorithm...)
		return
	}
	p.limits[i] = drawMaxWait(t, drawChange(t, p.limits[i]))
}

// mixed draws the groups of one call: mostly one, of claims of every kind.
func (p *pool) mixed() []stint.Group {
	t := p.h.drawn
	var groups []stint.Group
	for range max(1, rapid.IntRange(-3, 3).Draw(t, "groups")) {
		claims := p.claims()
		for i := range claims {
			p.vary(&claims[i])
		}
		if rapid.IntRange(0, 4).Draw(t, "shadow") > 0 {
			groups = append(groups, stint.Group{Claims: claims})
			continue
		}
		if len(groups) == 0 {
			groups = append(groups, stint.Group{})
		}
		last := &groups[len(groups)-1]
		last.Shadows = append(last.Shadows, claims)
		last.Dry = rapid.IntRange(0, 4).Draw(t, "dry") == 0
	}
	return groups
}

// vary turns some claims into peeks, refunds or resets, or gives them an Extra.
func (p *pool) vary(c *stint.Claim) {
	t := p.h.drawn
	c.MaxDelay = p.h.drawMaxDelay(c.Limit, p.h.peek(stint.Claim{Key: c.Key, Limit: c.Limit}))
	switch rapid.IntRange(0, 11).Draw(t, "kind") {
	case 0:
		c.Cost = 0
	case 1:
		c.Cost = 0
		c.Extra = rapid.Int64Range(0, c.Limit.Max()).Draw(t, "extra")
	case 2:
		c.Extra = rapid.Int64Range(0, stint.MaxCost).Draw(t, "extra")
	case 3, 4:
		c.Cost = -c.Cost
		if len(p.h.moments) > 0 && rapid.Bool().Draw(t, "at") {
			c.At = rapid.SampledFrom(p.h.moments).Draw(t, "at of")
		}
	case 5, 6:
		c.Cost = -c.Cost
		c.At = max(1, p.h.now()-rapid.Int64Range(0, c.Limit.Window().Microseconds()).Draw(t, "ago µs"))
	case 7:
		if rapid.IntRange(0, 3).Draw(t, "forget") == 0 {
			c.Cost = stint.Forget
		}
	}
}
