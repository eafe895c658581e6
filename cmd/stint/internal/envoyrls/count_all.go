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
// themselves, and so do limits that a node decides without the store: from a lease, or
// from its local state.

// separate makes a group of each limit.
func (p *plan) separate() {
	for i := range p.matches {
		if m := &p.matches[i]; m.applies() {
			m.claim = len(p.claims)
			p.claims = append(p.claims, m.endless())
		}
	}
	for i := range p.claims {
		p.groups = append(p.groups, stint.Group{Claims: p.claims[i : i+1 : i+1]})
	}
}

// endless returns the claim that counts a limit whatever the outcome.
func (m *match) endless() stint.Claim {
	if !m.limit.all.Valid() {
		return m.make()
	}
	c := m.claimOf(m.limit.all, m.cost)
	if m.cost > 1 { // near the end of the counter, charges what still fits
		c.Cost, c.Extra = 1, m.cost-1
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
	if err := p.take(ctx, store); err != nil || p.asksEnvoy() {
		return err
	}
	over := false
	for i := range p.matches {
		over = over || p.matches[i].applies() && p.over(&p.matches[i])
	}
	for i := range p.matches {
		if m := &p.matches[i]; m.applies() && (!over || m.cost < 0 || p.over(m)) {
			p.claims[m.claim] = m.endless()
		}
	}
	return nil
}

// over reports whether a peek shows less than the cost. It is false for a refund.
func (p *plan) over(m *match) bool {
	d := &p.decisions[m.claim]
	if m.cost < 0 {
		return false
	}
	if m.limit.all.Valid() {
		return m.limit.left(d) < m.cost
	}
	return d.Remaining < m.cost
}

// judge sets the decisions of all counted limits.
func (p *plan) judge() {
	for i := range p.matches {
		if m := &p.matches[i]; m.applies() && m.limit.all.Valid() {
			m.left = m.limit.left(&p.decisions[m.claim])
			m.limit.judge(&p.decisions[m.claim], m.cost)
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
