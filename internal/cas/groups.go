package cas

import (
	"context"
	"sync"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/storekit"
)

// plan is one call of TakeGroups. It cuts the groups into calls: one call for the groups of
// each item, and one for all groups if some of them span items.
//
// Groups on one item are decided in order. Those on different items do not affect each
// other, so their calls run at the same time.
type plan struct {
	store  *Store
	ctx    context.Context //nolint:containedctx // the plan lives for one call
	groups []stint.Group
	out    []stint.Decision
	places []place // of the groups
	failed storekit.Errors

	pending []pending
	byItem  map[string]int // index in pending
	claims  int            // of pending
}

// place is where the answer of a group goes.
type place struct{ part, claim int }

// pending are groups that will be decided in one call.
type pending struct{ groups []int }

// mostPending bounds the calls that run at the same time.
const mostPending = 128

func (p *plan) run() {
	p.places = make([]place, len(p.groups))
	var at place
	spans := false
	for i := range p.groups {
		p.places[i] = at
		claims, parts := stint.Sizes(p.groups[i : i+1])
		at.claim, at.part = at.claim+claims, at.part+parts
		spans = spans || items(&p.groups[i]) == several
	}
	for i := range p.groups {
		switch {
		case items(&p.groups[i]) == none:
			p.decideAlone(i)
		case spans && p.store.decidesAlone(p.groups[i].Once != nil):
			p.flush()
			p.add(acrossLane, i)
			p.flush()
		case spans:
			p.add(acrossLane, i)
		default:
			p.add(p.item(i), i)
		}
	}
	p.flush()
}

// count is how many items the claims of a group have.
type count uint8

const (
	none count = iota
	one
	several
)

// items counts the items of the valid claims of a group and of its shadows.
func items(g *stint.Group) count {
	if len(g.Shadows) == 0 && len(g.Claims) == 1 && g.Claims[0].Validate() == nil { // nearly always
		return one
	}
	var first *stint.Claim
	for part := range g.Parts() {
		claims := g.Part(part)
		for i := range claims {
			c := &claims[i]
			switch {
			case c.Validate() != nil:
			case first == nil:
				first = c
			case !sameItem(first, c):
				return several
			}
		}
	}
	if first == nil {
		return none
	}
	return one
}

func sameItem(a, b *stint.Claim) bool {
	return a.Key == b.Key && a.Limit.FromCaller() == b.Limit.FromCaller()
}

// item returns the key of the only item of a group, or an empty text if the plan has only
// that group.
func (p *plan) item(i int) string {
	if len(p.groups) > 1 {
		for c := range storekit.Claims(p.groups[i : i+1]) {
			if c.Validate() == nil {
				return keyOf(c)
			}
		}
	}
	return ""
}

// add adds a group to the call of an item, or to that of a transaction.
func (p *plan) add(item string, i int) {
	claims, _ := stint.Sizes(p.groups[i : i+1])
	limit := maxRound
	if item == acrossLane {
		limit = p.store.options.MaxBatch // of a transaction, which has at most one item for each claim
	}
	if len(p.pending) >= mostPending || p.claims > 0 && p.claims+claims > limit {
		p.flush()
	}
	p.claims += claims
	at, known := p.byItem[item]
	if !known {
		at = len(p.pending)
		p.pending = append(p.pending, pending{})
		if len(p.groups) > 1 {
			if p.byItem == nil {
				p.byItem = map[string]int{}
			}
			p.byItem[item] = at
		}
	}
	p.pending[at].groups = append(p.pending[at].groups, i)
}

// flush decides the pending calls.
func (p *plan) flush() {
	calls, errs := make([]*call, len(p.pending)), make([]error, len(p.pending))
	var others sync.WaitGroup
	for i := range p.pending {
		calls[i] = newCall(p.ctx, p.groupsOf(&p.pending[i]))
		if i > 0 {
			others.Go(func() { errs[i] = p.store.take(calls[i]) })
		}
	}
	if len(calls) > 0 {
		errs[0] = p.store.take(calls[0])
	}
	others.Wait()
	for i, c := range calls {
		p.collect(&p.pending[i], c, errs[i])
	}
	clear(p.byItem)
	p.pending, p.claims = p.pending[:0], 0
}

func (p *plan) groupsOf(w *pending) []stint.Group {
	if first := w.groups[0]; len(w.groups) == 1 {
		return p.groups[first : first+1]
	}
	groups := make([]stint.Group, len(w.groups))
	for i, at := range w.groups {
		groups[i] = p.groups[at]
	}
	return groups
}

// collect copies the decisions and errors of a call to the plan.
func (p *plan) collect(w *pending, c *call, err error) {
	_, parts := stint.Sizes(c.groups)
	errs, whole := storekit.PartErrors(err, parts)
	part, claim := 0, 0
	for i, at := range w.groups {
		to := p.places[at]
		claims, n := stint.Sizes(c.groups[i : i+1])
		for j := range n {
			err := whole
			if errs != nil {
				err = errs[part+j]
			}
			p.failed.Set(to.part+j, p.groups, err)
		}
		if whole == nil {
			copy(p.out[to.claim:to.claim+claims], c.out[claim:])
		}
		part, claim = part+n, claim+claims
	}
}

// decideAlone decides a group that has no valid claim, which needs no item.
func (p *plan) decideAlone(i int) {
	to := p.places[i]
	claims, parts := stint.Sizes(p.groups[i : i+1])
	_, err := storekit.Decide(p.groups[i:i+1], nil, time.Now(), p.out[to.claim:to.claim+claims])
	errs, _ := storekit.PartErrors(err, parts)
	for j, err := range errs {
		p.failed.Set(to.part+j, p.groups, err)
	}
}
