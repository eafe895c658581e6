package lease

import (
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/stintdev/stint"
)

// call is the store call of a round. Groups of one claim on one key are joined: the
// first asks for the tokens of the others as extra, the store charges them in the same
// step, and the round hands the granted tokens out. So a batch whose keys have no leases
// asks for each key once, not for each check.
type call struct {
	sub       []stint.Group // the groups that the store decides
	claims    []stint.Claim // copies of the claims of sub
	shadows   [][]stint.Claim
	decisions []stint.Decision
	parts     []int // by part of sub: its number among the parts of all groups
	places    []int // by decision: its index in out
	asks      []asked
	singles   map[*entry]int // the index in asks of the claim that later claims of the key may join
	joined    []joined
	errs      stint.GroupsError
}

// asked is a claim that goes to the store and whose key has an entry.
type asked struct {
	shard *shard
	entry *entry
	part  int   // its part of sub
	claim int   // in claims
	first bool  // other checks of the key wait for the answer
	used  int64 // granted tokens that joined claims have used
}

// joined is a group of one claim for which another claim asks as extra.
type joined struct {
	ask   int // index in asks
	group int // index in round.groups
	part  int // its number among the parts of all groups
	place int // index in out
}

// emptied returns an empty call that reuses the memory of k.
func (k *call) emptied() call {
	clear(k.sub)
	clear(k.claims)
	clear(k.shadows)
	clear(k.asks)
	clear(k.singles)
	return call{sub: k.sub[:0], claims: k.claims[:0], shadows: k.shadows[:0], decisions: k.decisions[:0],
		parts: k.parts[:0], places: k.places[:0], asks: k.asks[:0], singles: k.singles, joined: k.joined[:0]}
}

// keep adds a group to the call. Its parts are numbered from part on, and its decisions
// begin at index place of out. leased says that leases may decide it.
func (r *round) keep(group, part, place int, leased bool) {
	g := &r.groups[group]
	single := leased && g.Parts() == 1 && len(g.Claims) == 1
	if single && r.join(joined{group: group, part: part, place: place}) {
		return
	}
	r.sub = append(r.sub, *g) // send replaces the claims by the copies
	for i := range g.Parts() {
		r.parts = append(r.parts, part+i)
		for _, c := range g.Part(i) {
			if g.Dry && c.Cost == stint.Forget {
				c.Cost = 0 // it forgets nothing here either
			}
			r.claims, r.places = append(r.claims, c), append(r.places, place)
			place++
			if claim := len(r.claims) - 1; leased {
				r.want(claim, single)
			} else {
				r.pass(claim)
			}
		}
	}
}

// want adds to a claim of the last part of sub the extra tokens that its key wants.
func (r *round) want(claim int, single bool) {
	s, c := r.lease, &r.claims[claim]
	sh, hash := s.locate(c)
	sh.Lock()
	defer sh.Unlock()
	sh.count.asked++
	e := sh.find(c)
	if e == nil {
		e = s.track(sh, hash, c, r.now)
	}
	if e == nil {
		return
	}
	e.demand.add(c.Cost, r.now, e.size.ahead)
	if single && e.mayJoin(c) {
		r.singles[e] = len(r.asks)
	} else {
		delete(r.singles, e) // later claims must not be decided before this one
	}
	r.asks = append(r.asks, asked{shard: sh, entry: e, part: len(r.parts) - 1, claim: claim, first: e.begin(c, r.now, true)})
}

// join adds the single claim of a group, as extra, to the last claim of the same key. It
// returns false if there is no such claim, or if one of the two must not be joined.
func (r *round) join(j joined) bool {
	c := &r.groups[j.group].Claims[0]
	sh, _ := r.lease.locate(c)
	sh.Lock()
	defer sh.Unlock()
	e := sh.find(c)
	ask, ok := r.singles[e]
	if !ok || !e.mayJoin(c) {
		return false
	}
	a := &r.claims[r.asks[ask].claim]
	if a.Policy != c.Policy || a.Extra+c.Cost > stint.MaxCost {
		return false
	}
	a.Extra += c.Cost
	j.ask = ask
	r.joined = append(r.joined, j)
	sh.count.asked++
	e.demand.add(c.Cost, r.now, e.size.ahead)
	return true
}

// mayJoin reports whether a claim may be joined with others of its key. A claim with a
// great cost may not, because tokens that do not suffice for a joined claim stay with the
// node. A claim with FailLocal may not, because such claims are counted one by one while
// the store fails, and must not wait for a second call.
func (e *entry) mayJoin(c *stint.Claim) bool {
	return c.Cost <= max(1, e.size.limit/shareOfJoined) && c.Policy.OnFailure != stint.FailLocal
}

// A claim may join if its cost is at most 1/shareOfJoined of the limit, or 1.
const shareOfJoined = 64

// send asks the store, stores the extra tokens that it granted, and hands out the
// decisions.
func (r *round) send(ctx context.Context) error {
	r.useCopies()
	r.decisions = append(r.decisions, make([]stint.Decision, len(r.claims))...)
	defer r.answered() // also when the store panics
	sent, begun := r.lease.now(), time.Now()
	err := r.lease.store.TakeGroups(ctx, r.sub, r.decisions)
	r.note(err)
	r.share()
	r.learn(err, sent)
	r.passed()
	r.answered()
	for i, place := range r.places {
		r.out[place] = r.decisions[i]
	}
	r.takeRest(began{ctx, begun})
	return r.errorOfAll(err)
}

// useCopies replaces the claims of sub by their copies in claims.
func (r *round) useCopies() {
	rest := r.claims
	next := func(n int) (claims []stint.Claim) {
		claims, rest = rest[:n:n], rest[n:]
		return claims
	}
	for i := range r.sub {
		g := &r.sub[i]
		g.Claims = next(len(g.Claims))
		from := len(r.shadows)
		for _, shadow := range g.Shadows {
			r.shadows = append(r.shadows, next(len(shadow)))
		}
		g.Shadows = r.shadows[from:len(r.shadows):len(r.shadows)]
	}
}

// share hands the granted tokens to the joined claims in their order. Claims for which
// too few are left stay in joined.
func (r *round) share() {
	rest := r.joined[:0]
	for _, j := range r.joined {
		a, cost := &r.asks[j.ask], r.groups[j.group].Claims[0].Cost
		d := &r.decisions[a.claim]
		switch {
		case d.Degraded, r.errs.Errs != nil && r.errs.Errs[j.part] != nil:
			r.out[j.place] = *d
		case d.Granted >= cost:
			d.Granted -= cost
			a.used += cost
			r.out[j.place] = stint.Decision{
				Allowed: true, Limit: d.Limit, Remaining: d.Remaining + d.Granted, At: d.At,
				ResetAfter: d.ResetAfter, NextAfter: d.NextAfter,
			}
		default:
			rest = append(rest, j)
		}
	}
	r.joined = rest
}

// learn stores the store's decisions in the entries of their keys. A part that failed
// has no decision.
func (r *round) learn(err error, sent int64) {
	received := r.lease.now()
	var late work
	for i := range r.asks {
		a := &r.asks[i]
		a.shard.Lock()
		if d := &r.decisions[a.claim]; err == nil || d.Limit > 0 {
			*d = a.shard.learn(a.entry, *d, &r.claims[a.claim], sent, received)
			d.Remaining += a.used
		}
		if a.entry.place == gone {
			late.settle(a.shard, a.entry, math.MaxInt64)
		}
		a.shard.Unlock()
	}
	r.lease.carry(&late)
}

// answered wakes the checks that wait for this call.
func (r *round) answered() {
	for i := range r.asks {
		a := &r.asks[i]
		a.shard.answered(a.entry, a.first)
		a.first = false
	}
}

// takeRest decides the joined claims that got too few tokens: from the state of their
// key if that suffices, and by a second store call otherwise.
func (r *round) takeRest(ctx context.Context) {
	rest := r.joined[:0]
	for _, j := range r.joined {
		if !r.decideRest(j) {
			rest = append(rest, j)
		}
	}
	if len(rest) == 0 {
		return
	}
	groups, out := make([]stint.Group, len(rest)), make([]stint.Decision, len(rest))
	for i, j := range rest {
		groups[i] = r.groups[j.group]
	}
	err := r.lease.store.TakeGroups(ctx, groups, out)
	for i, j := range rest {
		r.out[j.place] = out[i]
		r.fail(j.part, errorOf(err, i))
	}
}

func (r *round) decideRest(j joined) (ok bool) {
	a := &r.asks[j.ask]
	a.shard.Lock()
	defer a.shard.Unlock()
	r.out[j.place], _, ok = a.entry.decide(r.groups[j.group].Claims[0].Cost, r.lease.now())
	return ok
}

// note assigns the errors of the store's answer to the parts.
func (r *round) note(err error) {
	if err == nil {
		return
	}
	for i, part := range r.parts {
		r.fail(part, errorOf(err, i))
	}
	for _, j := range r.joined {
		r.fail(j.part, errorOf(err, r.asks[j.ask].part))
	}
}

// errorOf returns the error of one part of a call.
func errorOf(err error, part int) error {
	if some, ok := errors.AsType[*stint.GroupsError](err); ok {
		return some.Errs[part]
	}
	return err
}

func (r *round) fail(part int, err error) {
	if err != nil {
		_, parts := stint.Sizes(r.groups)
		r.errs.Set(part, parts, err)
	}
}

// errorOfAll returns the store's error if nothing was decided at all, and a
// [stint.GroupsError] if only some parts have an error.
func (r *round) errorOfAll(err error) error {
	if _, some := errors.AsType[*stint.GroupsError](err); err != nil && !some && !slices.Contains(r.errs.Errs, nil) {
		return err
	}
	return r.errs.Err()
}
