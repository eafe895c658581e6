package lease

import (
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/stintdev/stint"
)

// call is the store call of a round. Single claims of one key are joined: the first
// asks for the others as extra, the store charges them in the same step, and the round
// hands the granted tokens out. So a batch whose keys have no leases asks for each key
// once, not for each check.
type call struct {
	sub       []stint.Group
	claims    []stint.Claim
	decisions []stint.Decision
	from      []int // by group of sub: its index in round.groups
	places    []int // by decision: its index in out
	asks      []asked
	singles   map[*entry]int // the index in asks of the claim that later claims of the key may join
	joined    []joined
	errs      []error // by index in round.groups; nil: no errors
}

// asked is a claim of a key with an entry that goes to the store.
type asked struct {
	shard *shard
	entry *entry
	group int   // in sub
	claim int   // in claims
	first bool  // other checks of the key wait for the answer
	used  int64 // granted tokens that joined claims have used
}

// joined is a group of one claim for which another claim asks as extra.
type joined struct {
	ask   int // index in asks
	group int // index in round.groups
	place int // index in out
}

// emptied returns an empty call that reuses the memory of k.
func (k *call) emptied() call {
	clear(k.sub)
	clear(k.claims)
	clear(k.asks)
	clear(k.singles)
	return call{sub: k.sub[:0], claims: k.claims[:0], decisions: k.decisions[:0], from: k.from[:0], places: k.places[:0],
		asks: k.asks[:0], singles: k.singles, joined: k.joined[:0]}
}

// keep adds groups first to next-1 to the store call. Their decisions begin at index
// place of out.
func (r *round) keep(first, next, place int) {
	bundle := r.groups[first:next]
	leased := allLeasable(bundle)
	single := leased && len(bundle) == 1 && len(bundle[0].Claims) == 1
	if single && r.join(first, place) {
		return
	}
	for i := range bundle {
		claim := len(r.claims)
		place = r.put(first+i, place)
		for ; claim < len(r.claims); claim++ {
			if leased {
				r.want(claim, single)
			} else {
				r.pass(claim)
			}
		}
	}
}

func allLeasable(bundle []stint.Group) bool {
	for i := range bundle {
		for j := range bundle[i].Claims {
			if !leasable(&bundle[i].Claims[j]) {
				return false
			}
		}
	}
	return true
}

// put adds a group whose decisions begin at index place of out, and returns the index
// after them.
func (r *round) put(group, place int) int {
	g := &r.groups[group]
	r.claims = append(r.claims, g.Claims...)
	for range g.Claims {
		r.places = append(r.places, place)
		place++
	}
	r.sub, r.from = append(r.sub, stint.Group{Shadow: g.Shadow}), append(r.from, group)
	return place
}

// want adds to a claim of the last group the extra tokens that its key wants.
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
	r.asks = append(r.asks, asked{shard: sh, entry: e, group: len(r.sub) - 1, claim: claim, first: e.begin(c, r.now, true)})
}

// join adds the single claim of a group, as extra, to the last claim of the same key. It
// returns false if there is no such claim, or if one of the two must not be joined.
func (r *round) join(group, place int) bool {
	c := &r.groups[group].Claims[0]
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
	r.joined = append(r.joined, joined{ask, group, place})
	sh.count.asked++
	e.demand.add(c.Cost, r.now, e.size.ahead)
	return true
}

// mayJoin reports whether a claim may be joined with others of its key. A great cost
// may not: tokens too few for a joined claim stay with the node. A claim with FailLocal
// may not: while the store fails such claims are counted one by one, and must not wait
// for a second call.
func (e *entry) mayJoin(c *stint.Claim) bool {
	return c.Cost <= max(1, e.size.limit/shareOfJoined) && c.Policy.OnFailure != stint.FailLocal
}

// A claim may join if its cost is at most 1/shareOfJoined of the limit, or 1.
const shareOfJoined = 64

// send asks the store, stores the extra tokens that it granted, and hands out the
// decisions.
func (r *round) send(ctx context.Context) error {
	claims := r.claims
	for i := range r.sub {
		n := len(r.groups[r.from[i]].Claims)
		r.sub[i].Claims, claims = claims[:n:n], claims[n:]
	}
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

// share hands the granted tokens to the joined claims in their order. Claims for which
// too few are left stay in joined.
func (r *round) share() {
	rest := r.joined[:0]
	for _, j := range r.joined {
		a, cost := &r.asks[j.ask], r.groups[j.group].Claims[0].Cost
		d := &r.decisions[a.claim]
		switch {
		case d.Degraded, r.errs != nil && r.errs[j.group] != nil:
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

// learn stores the store's decisions in the entries of their keys. A group that failed
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
		r.fail(j.group, errorOf(err, i))
	}
}

func (r *round) decideRest(j joined) (ok bool) {
	a := &r.asks[j.ask]
	a.shard.Lock()
	defer a.shard.Unlock()
	r.out[j.place], _, ok = a.entry.decide(r.groups[j.group].Claims[0].Cost, r.lease.now())
	return ok
}

// note assigns the errors of the store's answer to groups.
func (r *round) note(err error) {
	if err == nil {
		return
	}
	for i, group := range r.from {
		r.fail(group, errorOf(err, i))
	}
	for _, j := range r.joined {
		r.fail(j.group, errorOf(err, r.asks[j.ask].group))
	}
}

// errorOf returns the error of one group of a call.
func errorOf(err error, group int) error {
	if some, ok := errors.AsType[*stint.GroupsError](err); ok {
		return some.Errs[group]
	}
	return err
}

func (r *round) fail(group int, err error) {
	if err == nil {
		return
	}
	if r.errs == nil {
		r.errs = make([]error, len(r.groups))
	}
	r.errs[group] = err
}

// errorOfAll returns the store's error if no group was decided at all, and a
// [stint.GroupsError] if only some groups have an error.
func (r *round) errorOfAll(err error) error {
	if r.errs == nil {
		return nil
	}
	if _, some := errors.AsType[*stint.GroupsError](err); !some && !slices.Contains(r.errs, nil) {
		return err
	}
	return &stint.GroupsError{Errs: r.errs}
}
