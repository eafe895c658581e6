package lease

import (
	"context"

	"github.com/stintdev/stint"
)

// passthrough sends a claim that no lease can answer to the store. A peek includes the
// tokens that this node holds. A reset drops them.
func (s *Store) passthrough(ctx context.Context, c *stint.Claim) (stint.Decision, error) {
	if c.Cost == stint.Forget {
		s.forget(c)
	}
	d, err := s.store.Take(ctx, *c)
	s.finishPassthrough(c, &d)
	return d, err
}

// finishPassthrough adds the tokens that this node holds to a peek's answer. After a
// reset it drops the tokens that arrived during the call.
func (s *Store) finishPassthrough(c *stint.Claim, d *stint.Decision) {
	switch {
	case c.Cost == stint.Forget:
		s.forget(c)
	case c.Cost == 0 && d.Limit > 0 && !d.Degraded:
		d.Remaining = min(d.Limit, d.Remaining+s.held(c))
	}
}

// addPassthrough prepares a claim of the store call that no lease can answer, as
// [Store.passthrough] does for a claim of its own.
func (gc *groupCall) addPassthrough(claim int) {
	c := &gc.claims[claim]
	if c.Cost == stint.Forget {
		gc.lease.forget(c)
	}
	sh, _ := gc.lease.locate(c)
	sh.Lock()
	defer sh.Unlock()
	for _, e := range sh.entriesOf(c) {
		delete(gc.singles, e) // a later claim must be decided after this one
	}
}

// finishPassthroughs applies a reset to this node, and adds the tokens in hand to the result of
// a peek, for each claim of the call.
func (gc *groupCall) finishPassthroughs() {
	for i := range gc.claims {
		gc.lease.finishPassthrough(&gc.claims[i], &gc.decisions[i])
	}
}

// entriesOf returns the entries of a claim's key, one for each mode, nil where there is none.
func (sh *shard) entriesOf(c *stint.Claim) [2]*entry {
	return [...]*entry{
		sh.entries[entryKey{c.Limit, c.Key, stint.Leased}],
		sh.entries[entryKey{c.Limit, c.Key, stint.Partitioned}],
	}
}

// forget drops the tokens and the denials that this node holds for a claim's key.
func (s *Store) forget(c *stint.Claim) {
	sh, _ := s.locate(c)
	sh.Lock()
	defer sh.Unlock()
	for _, e := range sh.entriesOf(c) {
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
	for _, e := range sh.entriesOf(c) {
		if e != nil {
			n += e.inHand(now)
		}
	}
	return n
}
