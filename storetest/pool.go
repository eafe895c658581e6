package storetest

import (
	"fmt"

	"pgregory.net/rapid"

	"github.com/stintdev/stint"
)

// pool is several keys under several limits. Laws about groups draw their claims
// from it.
type pool struct {
	h      *history
	keys   []string
	limits []stint.Limit
}

func (h *history) drawPool() *pool {
	p := &pool{h: h}
	for i := range rapid.IntRange(1, 3).Draw(h.drawn, "keys") {
		p.keys = append(p.keys, fmt.Sprint(h.scope, i))
	}
	for i := range rapid.IntRange(1, 3).Draw(h.drawn, "limits") {
		p.limits = append(p.limits, drawLimit(h.drawn, fmt.Sprint("limit", i), everyAlgorithm...))
	}
	return p
}

// limit draws the limit that sets the pace of the clock.
func (p *pool) limit() stint.Limit { return rapid.SampledFrom(p.limits).Draw(p.h.drawn, "pace") }

// claims draws claims with costs above zero on different states.
func (p *pool) claims() (claims []stint.Claim) {
	t, sets := p.h.drawn, rapid.Bool().Draw(p.h.drawn, "sets")
	for i, key := range p.keys {
		for j, limit := range p.limits {
			if len(claims) > 0 && rapid.Bool().Draw(t, "leave out") {
				continue
			}
			c := stint.Claim{Key: key, Limit: limit, Cost: p.h.drawCost(p.lastOf(i, j))}
			if sets {
				c.AnyOf = rapid.Uint8Range(0, 2).Draw(t, "any")
			}
			claims = append(claims, c)
		}
	}
	return claims
}

func (p *pool) lastOf(key, limit int) stint.Decision {
	return p.h.peek(stint.Claim{Key: p.keys[key], Limit: p.limits[limit]})
}
