package lease

import (
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/storekit"
)

// storeCall is the store call of a groupCall. Groups of one claim on one key are joined:
// the first asks for the tokens of the others as extra, the store charges them in the same
// step, and the groupCall hands the granted tokens out. So a batch whose keys have no
// leases asks for each key once, not for each check.
type storeCall struct {
	sub       []stint.Group // the groups that the store decides
	claims    []stint.Claim // copies of the claims of sub
	shadows   [][]stint.Claim
	decisions []stint.Decision
	parts     []int // by part of sub: its number among the parts of all groups
	places    []int // by decision: its index in out
	asks      []askedClaim
	singles   map[*entry]int // the index in asks of the claim that later claims of the key may join
	joined    []joined
	errs      storekit.Errors
}

// askedClaim is a claim that goes to the store and whose key has an entry.
type askedClaim struct {
	shard *shard
	entry *entry
	part  int   // its part of sub
	claim int   // index in claims
	first bool  // other checks of the key wait for the answer
	used  int64 // granted tokens that joined claims have used
}

// joined is a group of one claim for which another claim asks as extra.
type joined struct {
	ask   int // index in asks
	group int // index in groupCall.groups
	part  int // its number among the parts of all groups
	place int // index in out
}

// emptied returns an empty call that reuses the memory of k.
func (k *storeCall) emptied() storeCall {
	clear(k.sub)
	clear(k.claims)
	clear(k.shadows)
	clear(k.asks)
	clear(k.singles)
	return storeCall{sub: k.sub[:0], claims: k.claims[:0], shadows: k.shadows[:0], decisions: k.decisions[:0],
		parts: k.parts[:0], places: k.places[:0], asks: k.asks[:0], singles: k.singles, joined: k.joined[:0]}
}

// addGroup adds a group to the call. Its parts are numbered from part on, and its decisions
// begin at index place of out. leased says that leases may decide it.
func (gc *groupCall) addGroup(group, part, place int, leased bool) {
	g := &gc.groups[group]
	single := leased && g.Parts() == 1 && len(g.Claims) == 1
	if single && gc.join(joined{group: group, part: part, place: place}) {
		return
	}
	gc.sub = append(gc.sub, *g) // send replaces the claims by the copies
	for i := range g.Parts() {
		gc.parts = append(gc.parts, part+i)
		for _, c := range g.Part(i) {
			if g.Dry && c.Cost == stint.Forget {
				c.Cost = 0 // a claim that is sent again must not forget the key
			}
			gc.claims, gc.places = append(gc.claims, c), append(gc.places, place)
			place++
			if claim := len(gc.claims) - 1; leased {
				gc.addExtra(claim, single)
			} else {
				gc.addPassthrough(claim)
			}
		}
	}
}

// addExtra adds to a claim of the last part of sub the extra tokens that its key wants.
func (gc *groupCall) addExtra(claim int, single bool) {
	s, c := gc.lease, &gc.claims[claim]
	sh, hash := s.locate(c)
	sh.Lock()
	defer sh.Unlock()
	sh.count.asked++
	e := sh.find(c)
	if e == nil {
		e = s.track(sh, hash, c, gc.now)
	}
	if e == nil {
		return
	}
	e.demand.add(c.Cost, gc.now, e.size.ahead)
	if single && e.mayJoin(c) {
		gc.singles[e] = len(gc.asks)
	} else {
		delete(gc.singles, e) // later claims must not be decided before this one
	}
	gc.asks = append(gc.asks, askedClaim{shard: sh, entry: e, part: len(gc.parts) - 1, claim: claim, first: e.begin(c, gc.now, true)})
}

// join adds the single claim of a group, as extra, to the last claim of the same key. It
// returns false if there is no such claim, or if one of the two must not be joined.
func (gc *groupCall) join(j joined) bool {
	c := &gc.groups[j.group].Claims[0]
	sh, _ := gc.lease.locate(c)
	sh.Lock()
	defer sh.Unlock()
	e := sh.find(c)
	ask, ok := gc.singles[e]
	if !ok || !e.mayJoin(c) {
		return false
	}
	a := &gc.claims[gc.asks[ask].claim]
	if a.Policy != c.Policy || a.Extra+c.Cost > stint.MaxCost {
		return false
	}
	a.Extra += c.Cost
	j.ask = ask
	gc.joined = append(gc.joined, j)
	sh.count.asked++
	e.demand.add(c.Cost, gc.now, e.size.ahead)
	return true
}

// mayJoin reports whether a claim may be joined with others of its key. A claim with a
// great cost may not, because tokens that do not suffice for a joined claim stay with the
// node. A claim that is decided in memory while the store fails may not, because such claims
// are then counted one by one, and must not wait for a second call.
func (e *entry) mayJoin(c *stint.Claim) bool {
	return c.Cost <= max(1, e.size.limit/shareOfJoined) && c.Policy.OnFailure != stint.FailLocal && c.Policy.OnFailure != stint.FailLastKnown
}

// A claim may join if its cost is at most 1/shareOfJoined of the limit, or 1.
const shareOfJoined = 64

// send asks the store, stores the extra tokens that it granted, and hands out the
// decisions.
func (gc *groupCall) send(ctx context.Context) error {
	gc.useCopies()
	gc.decisions = append(gc.decisions, make([]stint.Decision, len(gc.claims))...)
	defer gc.wakeAll() // also when the store panics
	sent, begun := gc.lease.now(), time.Now()
	err := gc.lease.store.TakeGroups(ctx, gc.sub, gc.decisions)
	gc.noteErrors(err)
	gc.distribute()
	gc.learn(err, sent)
	gc.finishPassthroughs()
	gc.wakeAll()
	for i, place := range gc.places {
		gc.out[place] = gc.decisions[i]
	}
	gc.takeRest(storekit.WithBegun(ctx, begun))
	return gc.errorOfAll(err)
}

// useCopies replaces the claims of sub by their copies in claims.
func (gc *groupCall) useCopies() {
	rest := gc.claims
	next := func(n int) (claims []stint.Claim) {
		claims, rest = rest[:n:n], rest[n:]
		return claims
	}
	for i := range gc.sub {
		g := &gc.sub[i]
		g.Claims = next(len(g.Claims))
		from := len(gc.shadows)
		for _, shadow := range g.Shadows {
			gc.shadows = append(gc.shadows, next(len(shadow)))
		}
		g.Shadows = gc.shadows[from:len(gc.shadows):len(gc.shadows)]
	}
}

// distribute hands the granted tokens to the joined claims in their order. Claims for which
// too few are left stay in joined.
func (gc *groupCall) distribute() {
	rest := gc.joined[:0]
	for _, j := range gc.joined {
		a, cost := &gc.asks[j.ask], gc.groups[j.group].Claims[0].Cost
		d := &gc.decisions[a.claim]
		switch {
		case d.Degraded, gc.errs.Of(j.part) != nil:
			gc.out[j.place] = *d
		case d.Granted >= cost:
			d.Granted -= cost
			a.used += cost
			gc.out[j.place] = stint.Decision{
				Allowed: true, Limit: d.Limit, Remaining: d.Remaining + d.Granted, At: d.At,
				ResetAfter: d.ResetAfter, NextAfter: d.NextAfter,
			}
		default:
			rest = append(rest, j)
		}
	}
	gc.joined = rest
}

// learn stores the store's decisions in the entries of their keys. A part that failed
// has no decision.
func (gc *groupCall) learn(err error, sent int64) {
	received := gc.lease.now()
	var late work
	for i := range gc.asks {
		a := &gc.asks[i]
		a.shard.Lock()
		if d := &gc.decisions[a.claim]; err == nil || d.Limit > 0 {
			*d = a.shard.learn(a.entry, *d, &gc.claims[a.claim], sent, received)
			d.Remaining += a.used
		}
		if a.entry.place == removed {
			late.refundEnded(a.shard, a.entry, math.MaxInt64)
		}
		a.shard.Unlock()
	}
	gc.lease.sendJobs(&late)
}

// wakeAll wakes the checks that wait for this call.
func (gc *groupCall) wakeAll() {
	for i := range gc.asks {
		a := &gc.asks[i]
		a.shard.wake(a.entry, a.first)
		a.first = false
	}
}

// takeRest decides the joined claims that got too few tokens: from the state of their
// key if that suffices, and by a second store call otherwise.
func (gc *groupCall) takeRest(ctx context.Context) {
	rest := gc.joined[:0]
	for _, j := range gc.joined {
		if !gc.decideRest(j) {
			rest = append(rest, j)
		}
	}
	if len(rest) == 0 {
		return
	}
	groups, out := make([]stint.Group, len(rest)), make([]stint.Decision, len(rest))
	for i, j := range rest {
		groups[i] = gc.groups[j.group]
	}
	err := gc.lease.store.TakeGroups(ctx, groups, out)
	for i, j := range rest {
		gc.out[j.place] = out[i]
		gc.errs.Set(j.part, gc.groups, errorOf(err, i))
	}
}

func (gc *groupCall) decideRest(j joined) (ok bool) {
	a := &gc.asks[j.ask]
	a.shard.Lock()
	defer a.shard.Unlock()
	gc.out[j.place], _, ok = a.entry.decide(gc.groups[j.group].Claims[0].Cost, gc.lease.now())
	return ok
}

// noteErrors assigns the errors of the store's answer to the parts.
func (gc *groupCall) noteErrors(err error) {
	if err == nil {
		return
	}
	for i, part := range gc.parts {
		gc.errs.Set(part, gc.groups, errorOf(err, i))
	}
	for _, j := range gc.joined {
		gc.errs.Set(j.part, gc.groups, errorOf(err, gc.asks[j.ask].part))
	}
}

// errorOf returns the error of one part of a call.
func errorOf(err error, part int) error {
	if some, ok := errors.AsType[*stint.GroupsError](err); ok {
		return some.Errs[part]
	}
	return err
}

// errorOfAll returns the store's error if nothing was decided at all, and a
// [stint.GroupsError] if only some parts have an error.
func (gc *groupCall) errorOfAll(err error) error {
	errs := gc.errs.Err()
	if _, some := errors.AsType[*stint.GroupsError](err); err == nil || some {
		return errs
	}
	if parts, ok := errors.AsType[*stint.GroupsError](errs); ok && slices.Contains(parts.Errs, nil) {
		return errs
	}
	return err
}
