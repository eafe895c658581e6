package envoyrls

import "github.com/stintdev/stint"

// Envoy's own service adds to the counter of every descriptor, whatever comes
// out, and then compares: a request that is over one limit uses up the others,
// and one that is denied still counts. Here a window without an end counts,
// each descriptor is a group of its own, and what it counted is judged
// afterwards. Limits of other algorithms decide by themselves.

// separate makes a group of each limit.
func (p *plan) separate() {
	for i := range p.asked {
		if a := &p.asked[i]; a.applies() {
			a.claim = len(p.groups)
			p.groups = append(p.groups, stint.Group{Claims: []stint.Claim{a.endless()}})
		}
	}
}

// endless is the claim of a descriptor that is counted whatever comes out.
func (a *asked) endless() stint.Claim {
	c := a.make()
	if !a.limit.all.Valid() {
		return c
	}
	c.Limit, c.Cost = a.limit.all, a.cost
	if a.cost > 1 { // at the end of the counter, what still fits is counted
		c.Cost, c.Extra = 1, a.cost-1
	}
	return c
}

// judge turns what was counted into what is allowed and left.
func (p *plan) judge() {
	for i := range p.asked {
		if a := &p.asked[i]; a.applies() && a.limit.all.Valid() {
			a.limit.judge(&p.decisions[a.claim])
		}
	}
}

// judge compares the counter with the limit. One that is at its end, a
// thousand million, is over every limit.
func (l *limit) judge(d *stint.Decision) {
	left := int64(l.info.GetRequestsPerUnit()) - (stint.MaxLimit - d.Remaining)
	d.Allowed = d.Allowed && left >= 0
	d.Remaining = max(0, left)
	if !d.Allowed {
		d.Remaining = 0
	}
}
