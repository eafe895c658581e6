package lease

import (
	"context"

	"github.com/stintdev/stint"
)

// pass sends a claim that no lease can answer to the store. A peek includes the tokens
// that this node holds. A reset drops them.
func (s *Store) pass(ctx context.Context, c *stint.Claim) (stint.Decision, error) {
	if c.Cost == stint.Forget {
		s.forget(c)
	}
	d, err := s.store.Take(ctx, *c)
	s.passed(c, &d)
	return d, err
}

// passed adds the tokens that this node holds to a peek's answer. After a reset it drops
// the tokens that arrived during the call.
func (s *Store) passed(c *stint.Claim, d *stint.Decision) {
	switch {
	case c.Cost == stint.Forget:
		s.forget(c)
	case c.Cost == 0 && d.Limit > 0 && !d.Degraded:
		d.Remaining = min(d.Limit, d.Remaining+s.held(c))
	}
}

// pass prepares a claim of the call that no lease can answer, as [Store.pass] does for a
// claim of its own.
func (r *round) pass(claim int) {
	c := &r.claims[claim]
	if c.Cost == stint.Forget {
		r.lease.forget(c)
	}
	sh, _ := r.lease.locate(c)
	sh.Lock()
	defer sh.Unlock()
	for _, e := range sh.all(c) {
		delete(r.singles, e) // a later claim must be decided after this one
	}
}

// passed completes the answers to all claims of the call.
func (r *round) passed() {
	for i := range r.claims {
		r.lease.passed(&r.claims[i], &r.decisions[i])
	}
}

// all returns the entries of a claim's key, one for each mode, nil where there is none.
func (sh *shard) all(c *stint.Claim) [2]*entry {
	return [...]*entry{
		sh.entries[name{c.Limit, c.Key, stint.Leased}],
		sh.entries[name{c.Limit, c.Key, stint.Partitioned}],
	}
}

// forget drops the tokens and the denials that this node holds for a claim's key.
func (s *Store) forget(c *stint.Claim) {
	sh, _ := s.locate(c)
	sh.Lock()
	defer sh.Unlock()
	for _, e := range sh.all(c) {
		if e != nil {
			e.grants, e.cached = e.grants[:0], denial{}
		}
	}
}

// held returns how many tokens this node holds for a claim's key.
func (s *Store) held(c *stint.Claim) (n int64) {
	sh, _ := s.locate(c)
	now := s.now()
	sh.Lock()
	defer sh.Unlock()
	for _, e := range sh.all(c) {
		if e != nil {
			n += e.inHand(now)
		}
	}
	return n
}
