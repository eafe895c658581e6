package lease

import (
	"context"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/storekit"
)

// TakeGroups decides a group and its shadows locally if every claim of them is leased
// and can be answered from this node's state. It decides all other groups in one call
// to the store.
func (s *Store) TakeGroups(ctx context.Context, groups []stint.Group, out []stint.Decision) error {
	if !s.made() {
		return errNotMade
	}
	if err := storekit.CheckOut(groups, out); err != nil {
		return err
	}
	if s.off || loosest(groups) == stint.Strict {
		return s.store.TakeGroups(ctx, groups, out)
	}
	gc := s.newGroupCall(groups, out)
	defer s.release(gc)
	part, place := 0, 0
	for i := range groups {
		claims, parts := stint.Sizes(groups[i : i+1])
		leased := groupLeasable(&groups[i])
		if !leased || !gc.decide(&groups[i], out[place:place+claims]) {
			gc.addGroup(i, part, place, leased)
		}
		part, place = part+parts, place+claims
	}
	if len(gc.sub) == 0 {
		return nil
	}
	return gc.send(ctx)
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
// an invalid part go to the store, which reports the error. So do groups that may be
// repeated: only the store remembers them for all nodes.
func groupLeasable(g *stint.Group) bool {
	if g.Dry || g.Once != nil {
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

// groupCall is one call of TakeGroups.
type groupCall struct {
	lease  *Store
	groups []stint.Group
	out    []stint.Decision
	now    int64

	spent []spent // tokens spent for the group that is being decided

	storeCall // of the store, for the groups that cannot be decided locally
}

// spent is a claim that was allowed from the tokens in hand.
type spent struct {
	shard *shard
	entry *entry
	cost  int64
	from  grant
	out   *stint.Decision
}

func (s *Store) newGroupCall(groups []stint.Group, out []stint.Decision) *groupCall {
	gc, ok := s.groupCalls.Get().(*groupCall)
	if !ok {
		gc = &groupCall{lease: s, storeCall: storeCall{singles: make(map[*entry]int)}}
	}
	gc.groups, gc.out, gc.now = groups, out, s.now()
	return gc
}

// maxKept bounds the claims for which a pooled groupCall keeps memory. Without the bound,
// the memory of one huge call would be kept forever.
const maxKept = 1 << 14

// release returns a groupCall to the pool, without references to its claims.
func (s *Store) release(gc *groupCall) {
	if cap(gc.claims)+cap(gc.joined) > maxKept {
		return
	}
	clear(gc.spent[:cap(gc.spent)]) // an earlier group may have used more slots
	*gc = groupCall{lease: s, spent: gc.spent[:0], storeCall: gc.emptied()}
	s.groupCalls.Put(gc)
}

// decide decides a group and its shadows. If one of them cannot be decided locally, it
// changes nothing and returns false.
func (gc *groupCall) decide(g *stint.Group, out []stint.Decision) bool {
	gc.spent = gc.spent[:0]
	charge, kept := true, 0
	for part := range g.Parts() {
		claims := g.Part(part)
		allowed, ok := gc.decidePart(claims, out[:len(claims)])
		if !ok {
			gc.uncount()
			gc.refund(0)
			return false
		}
		if part == 0 {
			charge = allowed
		}
		if !charge || !allowed {
			gc.refund(kept)
		}
		kept, out = len(gc.spent), out[len(claims):]
	}
	return true
}

// decidePart spends tokens for every claim of a part that can be allowed. The caller
// refunds them if the part is denied.
func (gc *groupCall) decidePart(claims []stint.Claim, out []stint.Decision) (allowed, ok bool) {
	allowed = true
	for i := range claims {
		if !gc.decideClaim(&claims[i], &out[i]) {
			return false, false
		}
		allowed = allowed && out[i].Allowed
	}
	return allowed, true
}

func (gc *groupCall) decideClaim(c *stint.Claim, out *stint.Decision) bool {
	sh, _ := gc.lease.locate(c)
	sh.Lock()
	defer sh.Unlock()
	e := sh.find(c)
	if e == nil {
		return false
	}
	d, from, ok := gc.lease.decide(sh, e, c.Cost, gc.now)
	if !ok {
		return false
	}
	e.demand.add(c.Cost, gc.now, e.size.ahead)
	if *out = d; from != nil {
		gc.spent = append(gc.spent, spent{sh, e, c.Cost, *from, out})
	}
	return true
}

// refund puts back the spent tokens from index from on.
func (gc *groupCall) refund(from int) {
	for _, s := range gc.spent[from:] {
		s.shard.Lock()
		if s.shard.count.local--; !s.entry.refund(s.cost, s.from) {
			s.shard.count.stranded += uint64(s.cost)
		}
		s.shard.Unlock()
		s.out.Remaining = min(s.out.Limit, s.out.Remaining+s.cost)
	}
	gc.spent = gc.spent[:from]
}

// uncount undoes the demand update of the spent claims, because the call to the store
// counts them again.
func (gc *groupCall) uncount() {
	for _, s := range gc.spent {
		s.shard.Lock()
		s.entry.demand.undo(s.cost)
		s.shard.Unlock()
	}
}
