package lease

import (
	"context"

	"github.com/stintdev/stint"
)

// TakeGroups decides a group locally if every claim of it is leased and can be answered
// from this node's state. It decides all other groups in one call to the store. A shadow
// group goes with the group that it observes.
func (s *Store) TakeGroups(ctx context.Context, groups []stint.Group, out []stint.Decision) error {
	if !s.made() {
		return errNotMade
	}
	if loosest(groups, out) == stint.Strict {
		return s.store.TakeGroups(ctx, groups, out)
	}
	r := s.round(groups, out)
	defer s.release(r)
	for first, claim := 0, 0; first < len(groups); {
		next := first + 1
		for next < len(groups) && groups[next].Shadow {
			next++
		}
		claims := claimsOf(groups[first:next])
		if !r.decide(groups[first:next], out[claim:claim+claims]) {
			r.keep(first, next, claim)
		}
		first, claim = next, claim+claims
	}
	if len(r.sub) == 0 {
		return nil
	}
	return r.send(ctx)
}

// loosest returns the loosest consistency among the claims. It returns Strict if out has
// the wrong length, so that the store reports the error.
func loosest(groups []stint.Group, out []stint.Decision) (found stint.Consistency) {
	if claimsOf(groups) != len(out) {
		return stint.Strict
	}
	for i := range groups {
		for j := range groups[i].Claims {
			if c := &groups[i].Claims[j]; c.Limit.Valid() {
				found = max(found, c.Policy.Consistency)
			}
		}
	}
	return found
}

func claimsOf(groups []stint.Group) (n int) {
	for i := range groups {
		n += len(groups[i].Claims)
	}
	return n
}

// round is one call of TakeGroups.
type round struct {
	lease  *Store
	groups []stint.Group
	out    []stint.Decision
	now    int64

	spent []spent // of the group that is being decided

	call // of the store, for the groups that cannot be decided locally
}

// spent is a claim that was allowed from the tokens in hand.
type spent struct {
	shard *shard
	entry *entry
	cost  int64
	from  grant
	out   *stint.Decision
}

func (s *Store) round(groups []stint.Group, out []stint.Decision) *round {
	r, ok := s.rounds.Get().(*round)
	if !ok {
		r = &round{lease: s, call: call{singles: make(map[*entry]int)}}
	}
	r.groups, r.out, r.now = groups, out, s.now()
	return r
}

// mostRoom bounds the claims for which a pooled round keeps memory. Without the bound,
// the memory of one huge call would stay forever.
const mostRoom = 1 << 14

// release returns a round to the pool, without references to the call's claims.
func (s *Store) release(r *round) {
	if cap(r.claims)+cap(r.joined) > mostRoom {
		return
	}
	clear(r.spent[:cap(r.spent)]) // an earlier group may have used more of it
	*r = round{lease: s, spent: r.spent[:0], call: r.emptied()}
	s.rounds.Put(r)
}

// decide decides a group and the shadows that observe it. If one of them cannot be
// decided locally, it changes nothing and returns false.
func (r *round) decide(bundle []stint.Group, out []stint.Decision) bool {
	r.spent = r.spent[:0]
	admitted, kept := true, 0
	for i := range bundle {
		g := &bundle[i]
		decisions := out[:len(g.Claims)]
		out = out[len(g.Claims):]
		allowed, ok := r.decideGroup(g, decisions)
		if !ok {
			r.uncount()
			r.refund(0)
			return false
		}
		if !g.Shadow {
			admitted = allowed
		}
		if !admitted || !allowed {
			r.refund(kept)
		}
		kept = len(r.spent)
	}
	return true
}

// decideGroup spends tokens for every claim that can be allowed. The caller refunds them
// if the group is denied.
func (r *round) decideGroup(g *stint.Group, out []stint.Decision) (allowed, ok bool) {
	if len(g.Claims) > 1 && g.Validate() != nil {
		return false, false
	}
	allowed = true
	for i := range g.Claims {
		if !r.decideClaim(&g.Claims[i], &out[i]) {
			return false, false
		}
		allowed = allowed && out[i].Allowed
	}
	return allowed, len(g.Claims) > 0
}

func (r *round) decideClaim(c *stint.Claim, out *stint.Decision) bool {
	if !leasable(c) {
		return false
	}
	sh, _ := r.lease.locate(c)
	sh.Lock()
	defer sh.Unlock()
	e := sh.find(c)
	if e == nil {
		return false
	}
	d, from, ok := r.lease.decide(sh, e, c.Cost, r.now)
	if !ok {
		return false
	}
	e.demand.add(c.Cost, r.now, e.size.ahead)
	if *out = d; from != nil {
		r.spent = append(r.spent, spent{sh, e, c.Cost, *from, out})
	}
	return true
}

// refund puts back the spent tokens from index from on.
func (r *round) refund(from int) {
	for _, s := range r.spent[from:] {
		s.shard.Lock()
		if s.shard.count.local--; !s.entry.refund(s.cost, s.from) {
			s.shard.count.stranded += uint64(s.cost)
		}
		s.shard.Unlock()
		s.out.Remaining = min(s.out.Limit, s.out.Remaining+s.cost)
	}
	r.spent = r.spent[:from]
}

// uncount undoes the demand update of the spent claims, because the call to the store
// counts them again.
func (r *round) uncount() {
	for _, s := range r.spent {
		s.shard.Lock()
		s.entry.demand.undo(s.cost)
		s.shard.Unlock()
	}
}
