package lease

import (
	"context"

	"github.com/stintdev/stint"
)

// TakeGroups decides a group and its shadows locally if every claim of them is leased
// and can be answered from this node's state. It decides all other groups in one call
// to the store.
func (s *Store) TakeGroups(ctx context.Context, groups []stint.Group, out []stint.Decision) error {
	if !s.made() {
		return errNotMade
	}
	if err := stint.CheckOut(groups, out); err != nil {
		return err
	}
	if loosest(groups) == stint.Strict {
		return s.store.TakeGroups(ctx, groups, out)
	}
	r := s.round(groups, out)
	defer s.release(r)
	part, place := 0, 0
	for i := range groups {
		claims, parts := stint.Sizes(groups[i : i+1])
		leased := groupLeasable(&groups[i])
		if !leased || !r.decide(&groups[i], out[place:place+claims]) {
			r.keep(i, part, place, leased)
		}
		part, place = part+parts, place+claims
	}
	if len(r.sub) == 0 {
		return nil
	}
	return r.send(ctx)
}

// loosest returns the loosest consistency among the claims.
func loosest(groups []stint.Group) (found stint.Consistency) {
	for i := range groups {
		for part := range groups[i].Parts() {
			claims := groups[i].Part(part)
			for j := range claims {
				if c := &claims[j]; c.Limit.Valid() {
					found = max(found, c.Policy.Consistency)
				}
			}
		}
	}
	return found
}

// groupLeasable reports whether leases may decide a group and its shadows. Groups with
// an invalid part go to the store, which reports the error.
func groupLeasable(g *stint.Group) bool {
	if g.Dry {
		return false
	}
	for part := range g.Parts() {
		claims := g.Part(part)
		for i := range claims {
			if !mayLease(&claims[i]) {
				return false
			}
		}
		if stint.ValidateClaims(claims) != nil {
			return false
		}
	}
	return true
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
// the memory of one huge call would be kept forever.
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

// decide decides a group and its shadows. If one of them cannot be decided locally, it
// changes nothing and returns false.
func (r *round) decide(g *stint.Group, out []stint.Decision) bool {
	r.spent = r.spent[:0]
	charge, kept := true, 0
	for part := range g.Parts() {
		claims := g.Part(part)
		allowed, ok := r.decidePart(claims, out[:len(claims)])
		if !ok {
			r.uncount()
			r.refund(0)
			return false
		}
		if part == 0 {
			charge = allowed
		}
		if !charge || !allowed {
			r.refund(kept)
		}
		kept, out = len(r.spent), out[len(claims):]
	}
	return true
}

// decidePart spends tokens for every claim of a part that can be allowed. The caller
// refunds them if the part is denied.
func (r *round) decidePart(claims []stint.Claim, out []stint.Decision) (allowed, ok bool) {
	allowed = true
	for i := range claims {
		if !r.decideClaim(&claims[i], &out[i]) {
			return false, false
		}
		allowed = allowed && out[i].Allowed
	}
	return allowed, true
}

func (r *round) decideClaim(c *stint.Claim, out *stint.Decision) bool {
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
