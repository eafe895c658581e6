package envoyrls

import (
	"context"

	"github.com/stintdev/stint"
)

// Envoy's own service adds to the counter of every descriptor, whatever comes
// out, and then compares: a request that is over one limit uses up the others,
// and one that is denied still counts. Here a window without an end counts,
// each limit is a group of its own, and what it counted is judged afterwards.
// Limits of other algorithms decide by themselves.

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

// endless is the claim of a limit that is counted whatever comes out.
func (a *asked) endless() stint.Claim {
	if !a.limit.all.Valid() {
		return a.make()
	}
	c := a.claimOf(a.limit.all, a.cost)
	if a.cost > 1 { // at the end of the counter, what still fits is counted
		c.Cost, c.Extra = 1, a.cost-1
	}
	return c
}

// look peeks first, as Envoy's service does where it is to stop counting: once
// the request would be over one of its limits, only those that it would be
// over count it, and what is given back is. Like there, others may count between the look and the take;
// none is admitted over its limit by that.
func (p *plan) look(ctx context.Context, store stint.Store) error {
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

// over reports whether what was looked at is too little. It never is for who
// gives back.
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

// judge turns what was counted into what is allowed and left.
func (p *plan) judge() {
	for i := range p.asked {
		if a := &p.asked[i]; a.applies() && a.limit.all.Valid() {
			a.limit.judge(&p.decisions[a.claim], a.cost)
		}
	}
}

// judge compares the counter with the limit. One that is at its end, a
// thousand million, is over every limit. To give back is allowed also where the
// counter stays above its limit.
func (l *limit) judge(d *stint.Decision, cost int64) {
	left := l.left(d)
	d.Allowed = d.Allowed && (left >= 0 || cost < 0)
	d.Remaining = max(0, left)
	if !d.Allowed {
		d.Remaining = 0
	}
}

// left is what the limit has left beside its counter, below 0 when more was
// counted.
func (l *limit) left(d *stint.Decision) int64 {
	return int64(l.info.GetRequestsPerUnit()) - (stint.MaxLimit - d.Remaining)
}
