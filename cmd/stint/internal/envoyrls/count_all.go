package envoyrls

import (
	"context"

	"github.com/stintdev/stint"
)

// This file counts as Envoy's own service does, for Options.CountAll. That service
// adds to the counter of every descriptor first and compares afterwards. So a request
// that is over one limit still uses up the others, and a denied request still counts.
// To do the same on a store, each fixed-window limit becomes a group of its own under
// a window of the greatest capacity, which counts in nearly every case; judge then
// compares the count with the real limit. Limits of other algorithms decide by
// themselves.

// separate makes a group of each limit.
func (p *plan) separate() {
	for i := range p.asked {
		if a := &p.asked[i]; a.applies() {
			a.claim = len(p.claims)
			p.claims = append(p.claims, a.endless())
		}
	}
	for i := range p.claims {
		p.groups = append(p.groups, stint.Group{Claims: p.claims[i : i+1 : i+1]})
	}
}

// endless returns the claim that counts a limit whatever the outcome.
func (a *asked) endless() stint.Claim {
	if !a.limit.all.Valid() {
		return a.make()
	}
	c := a.claimOf(a.limit.all, a.cost)
	if a.cost > 1 { // near the end of the counter, charges what still fits
		c.Cost, c.Extra = 1, a.cost-1
	}
	return c
}

// peek implements Options.StopWhenOver. It peeks at all limits before the take. If the
// request would be over a limit, then only the limits that it exceeds count it;
// negative costs are always refunded. As in Envoy's service, other requests may count
// between the peek and the take. That admits none of them over its limit.
func (p *plan) peek(ctx context.Context, store stint.Store) error {
	for i := range p.claims {
		p.claims[i].Cost, p.claims[i].Extra = 0, 0
	}
	if err := p.take(ctx, store); err != nil || p.degraded() {
		return err
	}
	over := false
	for i := range p.asked {
		over = over || p.asked[i].applies() && p.over(&p.asked[i])
	}
	for i := range p.asked {
		if a := &p.asked[i]; a.applies() && (!over || a.cost < 0 || p.over(a)) {
			p.claims[a.claim] = a.endless()
		}
	}
	return nil
}

// over reports whether a peek shows less than the cost. It is false for a refund.
func (p *plan) over(a *asked) bool {
	d := &p.decisions[a.claim]
	if a.cost < 0 {
		return false
	}
	if a.limit.all.Valid() {
		return a.limit.left(d) < a.cost
	}
	return d.Remaining < a.cost
}

// judge sets the decisions of all counted limits.
func (p *plan) judge() {
	for i := range p.asked {
		if a := &p.asked[i]; a.applies() && a.limit.all.Valid() {
			a.limit.judge(&p.decisions[a.claim], a.cost)
		}
	}
}

// judge compares the counter with the limit. A counter at its end (stint.MaxLimit) is
// over every limit. A refund is allowed even if the counter stays above the limit.
func (l *limit) judge(d *stint.Decision, cost int64) {
	left := l.left(d)
	d.Allowed = d.Allowed && (left >= 0 || cost < 0)
	d.Remaining = max(0, left)
	if !d.Allowed {
		d.Remaining = 0
	}
}

// left returns the limit minus the count, below 0 when the count exceeds the limit.
func (l *limit) left(d *stint.Decision) int64 {
	return int64(l.info.GetRequestsPerUnit()) - (stint.MaxLimit - d.Remaining)
}
