package lease

import (
	"context"
	"errors"

	"github.com/stintdev/stint"
)

// TakeGroups decides the groups, those locally whose claims are all leased and
// known well enough, and the others in one call to the store. A shadow group
// goes with the group that it observes.
func (s *Store) TakeGroups(ctx context.Context, groups []stint.Group, out []stint.Decision) error {
	if loosest(groups, out) == stint.Strict {
		return s.store.TakeGroups(ctx, groups, out)
	}
	r := s.round(groups, out)
	defer s.giveBack(r)
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

// loosest is the loosest consistency among the claims; Strict too when the room
// does not suit, which is for the store to say.
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

	// What goes to the store.
	sub       []stint.Group
	claims    []stint.Claim
	decisions []stint.Decision
	from      []int // by group of sub: its place among all
	places    []int // by decision: its place in out
	asks      []asked
}

// spent is a claim that was allowed from what is in hand.
type spent struct {
	shard *shard
	entry *entry
	cost  int64
	from  grant
	told  *stint.Decision
}

// asked is a claim that the store is asked with, of a key that is looked after.
type asked struct {
	shard *shard
	entry *entry
	claim int // in claims
	first bool
}

func (s *Store) round(groups []stint.Group, out []stint.Decision) *round {
	r, ok := s.rounds.Get().(*round)
	if !ok {
		r = &round{lease: s}
	}
	r.groups, r.out, r.now = groups, out, s.now()
	return r
}

// giveBack keeps the room alone for the next call.
func (s *Store) giveBack(r *round) {
	clear(r.sub)
	clear(r.claims)
	clear(r.asks)
	clear(r.spent)
	*r = round{lease: s, spent: r.spent[:0], sub: r.sub[:0], claims: r.claims[:0], decisions: r.decisions[:0],
		from: r.from[:0], places: r.places[:0], asks: r.asks[:0]}
	s.rounds.Put(r)
}

// decide decides a group and those that observe it, or changes nothing and
// reports false.
func (r *round) decide(bundle []stint.Group, out []stint.Decision) bool {
	r.spent = r.spent[:0]
	admitted, kept := true, 0
	for i := range bundle {
		g := &bundle[i]
		decisions := out[:len(g.Claims)]
		out = out[len(g.Claims):]
		allowed, ok := r.decideGroup(g, decisions)
		if !ok {
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

// decideGroup spends for every claim that can be allowed.
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
	e.pace.add(c.Cost, r.now, e.size.ahead)
	if *out = d; from != nil {
		r.spent = append(r.spent, spent{sh, e, c.Cost, *from, out})
	}
	return true
}

// refund puts back what was spent from that one on.
func (r *round) refund(from int) {
	for _, s := range r.spent[from:] {
		s.shard.Lock()
		if s.shard.count.local--; !s.entry.refund(s.cost, s.from) {
			s.shard.count.stranded += uint64(s.cost)
		}
		s.shard.Unlock()
		s.told.Remaining = min(s.told.Limit, s.told.Remaining+s.cost)
	}
	r.spent = r.spent[:from]
}

// keep has the store decide the groups from first to before next, whose
// decisions begin at a place.
func (r *round) keep(first, next, place int) {
	leased := true
	for i := first; i < next; i++ {
		for j := range r.groups[i].Claims {
			leased = leased && leasable(&r.groups[i].Claims[j])
		}
	}
	for i := first; i < next; i++ {
		g := r.groups[i]
		begin := len(r.claims)
		r.claims = append(r.claims, g.Claims...)
		for j := range g.Claims {
			if r.places = append(r.places, place); leased {
				r.want(begin + j)
			}
			place++
		}
		r.sub, r.from = append(r.sub, stint.Group{Shadow: g.Shadow}), append(r.from, i)
	}
}

// want adds to a claim what is wanted beside it.
func (r *round) want(claim int) {
	s, c := r.lease, &r.claims[claim]
	sh, hash := s.locate(c)
	sh.Lock()
	defer sh.Unlock()
	sh.count.asked++
	e := sh.find(c)
	if e == nil {
		e = s.warm(sh, hash, c, r.now)
	}
	if e != nil {
		e.pace.add(c.Cost, r.now, e.size.ahead)
		r.asks = append(r.asks, asked{sh, e, claim, e.begin(c, r.now, true)})
	}
}

// send asks the store, keeps what came beside, and passes the answer on.
func (r *round) send(ctx context.Context) error {
	claims := r.claims
	for i := range r.sub {
		n := len(r.groups[r.from[i]].Claims)
		r.sub[i].Claims, claims = claims[:n:n], claims[n:]
	}
	r.decisions = append(r.decisions, make([]stint.Decision, len(r.claims))...)
	sent := r.lease.now()
	err := r.lease.store.TakeGroups(ctx, r.sub, r.decisions)
	r.learn(err, sent)
	for i, place := range r.places {
		r.out[place] = r.decisions[i]
	}
	return r.errorOfAll(err)
}

// learn keeps what the store said. A group without a decision says nothing.
func (r *round) learn(err error, sent int64) {
	received := r.lease.now()
	for _, a := range r.asks {
		a.shard.Lock()
		if a.first {
			a.entry.end()
		}
		if d := &r.decisions[a.claim]; err == nil || d.Limit > 0 {
			*d = a.shard.learn(a.entry, *d, &r.claims[a.claim], sent, received)
		}
		a.shard.Unlock()
	}
}

// errorOfAll places the errors of those that the store was asked for among all.
func (r *round) errorOfAll(err error) error {
	var some *stint.GroupsError
	if !errors.As(err, &some) {
		return r.errorOfCall(err)
	}
	errs := make([]error, len(r.groups))
	for i, e := range some.Errs {
		errs[r.from[i]] = e
	}
	return &stint.GroupsError{Errs: errs}
}

// errorOfCall is the error of a call that decided nothing, which is that of
// some groups when others were decided here.
func (r *round) errorOfCall(err error) error {
	if err == nil || len(r.sub) == len(r.groups) {
		return err
	}
	errs := make([]error, len(r.groups))
	for _, place := range r.from {
		errs[place] = err
	}
	return &stint.GroupsError{Errs: errs}
}
