package stint

import (
	"context"
	"fmt"

	"github.com/stintdev/stint/internal/table"
)

// batchSize is how many claims are looked up before the first of them is
// decided. It is large enough that their cache misses overlap, and small enough
// for the stack.
const batchSize = 32

// smallBatch is the batch size for the claims of one request. Clearing buffers
// for 32 claims would take as long as deciding one.
const smallBatch = 4

// batch holds the claims of some groups after the lookup.
type batch struct {
	queries []query
	errs    []error
	order   []int32 // the claims of one group, sorted by shard
}

// TakeGroups decides the groups one after the other, all at the same time of
// the clock.
func (m *Memory) TakeGroups(_ context.Context, groups []Group, out []Decision) error {
	if claims := countClaims(groups); claims != len(out) {
		return invalid(fmt.Sprintf("out: has room for %d decisions, and there are %d claims", len(out), claims), "pass one for each claim")
	}
	if !m.made() {
		return errNoMemory
	}
	if len(out) <= smallBatch {
		return m.takeFew(groups, out)
	}
	return m.takeMany(groups, out)
}

func (m *Memory) takeFew(groups []Group, out []Decision) error {
	var (
		queries [smallBatch]query
		errs    [smallBatch]error
		order   [smallBatch]int32
	)
	call := groupCall{memory: m, now: m.clock.Now(), groups: groups, admitted: true}
	call.run(&batch{queries[:], errs[:], order[:]}, 0, len(groups), out)
	return call.err()
}

func (m *Memory) takeMany(groups []Group, out []Decision) error {
	var (
		queries [batchSize]query
		errs    [batchSize]error
		order   [batchSize]int32
	)
	b := batch{queries[:], errs[:], order[:]}
	call := groupCall{memory: m, now: m.clock.Now(), groups: groups, admitted: true}
	for from := 0; from < len(groups); {
		to, claims := nextBatch(groups, from)
		if claims > batchSize {
			b = batch{make([]query, claims), make([]error, claims), make([]int32, claims)}
		}
		call.run(&b, from, to, out[:claims])
		from, out = to, out[claims:]
	}
	return call.err()
}

func countClaims(groups []Group) (claims int) {
	for i := range groups {
		claims += len(groups[i].Claims)
	}
	return claims
}

// nextBatch returns the end of the range of groups, beginning at from, whose
// claims fit into a batch, and the number of their claims. The range has at
// least one group.
func nextBatch(groups []Group, from int) (to, claims int) {
	for to = from; to < len(groups); to++ {
		n := len(groups[to].Claims)
		if to > from && claims+n > batchSize {
			break
		}
		claims += n
	}
	return to, claims
}

// groupCall is one call of TakeGroups.
type groupCall struct {
	memory   *Memory
	now      int64
	groups   []Group
	errs     []error // by group; nil while there is none
	admitted bool    // whether the nearest preceding group that is not Shadow was admitted
}

func (g *groupCall) err() error {
	if g.errs == nil {
		return nil
	}
	return &GroupsError{Errs: g.errs}
}

// run looks up the claims of groups[from:to] and decides them.
func (g *groupCall) run(b *batch, from, to int, out []Decision) {
	g.lookUp(b, from, to)
	first := 0
	for i := from; i < to; i++ {
		group := &g.groups[i]
		next := first + len(group.Claims)
		admitted, err := g.decide(b, group, first, out[first:next])
		if err != nil {
			g.fail(i, err)
			clear(out[first:next])
		}
		if !group.Shadow {
			g.admitted = admitted
		}
		first = next
	}
}

// lookUp prepares the claims. It prefetches first all their keys and then all
// their slots, so that the cache misses overlap.
func (g *groupCall) lookUp(b *batch, from, to int) {
	for i := from; i < to; i++ {
		for j := range g.groups[i].Claims {
			table.Fetch(g.groups[i].Claims[j].Key)
		}
	}
	k := 0
	for i := from; i < to; i++ {
		claims := g.groups[i].Claims
		for j := range claims {
			b.errs[k] = g.memory.prepare(&b.queries[k], &claims[j])
			k++
		}
	}
	for i := range k {
		if q := &b.queries[i]; b.errs[i] == nil {
			q.states.table.Touch(q.id)
		}
	}
}

func (g *groupCall) fail(group int, err error) {
	if g.errs == nil {
		g.errs = make([]error, len(g.groups))
	}
	g.errs[group] = err
}

// decide decides one group, whose claims begin at first in the batch.
func (g *groupCall) decide(b *batch, group *Group, first int, out []Decision) (admitted bool, err error) {
	for i := range out {
		if err := b.errs[first+i]; err != nil {
			return false, err
		}
	}
	charge := !group.Shadow || g.admitted
	if len(out) == 1 {
		err := g.decideAlone(&b.queries[first], &group.Claims[0], &out[0], charge)
		return err == nil && out[0].Allowed, err
	}
	if err := checkDistinct(group.Claims); err != nil {
		return false, err
	}
	return g.decideTogether(b.queries[first:first+len(out)], b.order[:len(out)], group.Claims, out, charge)
}

// decideAlone decides a group of one claim.
func (g *groupCall) decideAlone(q *query, c *Claim, d *Decision, charge bool) error {
	*d = Decision{}
	shard := q.states.table.Shard(q.id)
	shard.LockAt(g.now)
	shard = q.states.table.Relock(shard, q.id)
	if charge && c.isPlain() && q.n.isBucket() {
		if slot := shard.Find(q.id); slot != nil && slot.Ref() == q.states.limits.cached(q.n) {
			next, after, allowed := q.n.takePlain(packed(slot.State), g.now, c.Cost)
			slot.State = table.State(next)
			shard.Unlock()
			q.n.reportPlain(d, after, g.now, c.Cost, allowed)
			return nil
		}
	}
	return g.memory.takeStep(shard, q, c, g.now, !charge, d)
}

// fewClaims is the greatest number of claims that checkDistinct compares pair by
// pair.
const fewClaims = 32

// checkDistinct refuses a group with two claims on one state, because the answer
// to each would depend on the other.
func checkDistinct(claims []Claim) error {
	if len(claims) > fewClaims {
		return checkManyDistinct(claims)
	}
	for i := range claims {
		for j := range claims[:i] {
			if sameState(&claims[i], &claims[j]) {
				return stateTwice(j, i)
			}
		}
	}
	return nil
}

// checkManyDistinct is checkDistinct in linear time, by a map.
func checkManyDistinct(claims []Claim) error {
	type state struct {
		key, name, rule, namespace string
		fromCaller                 bool
	}
	seen := make(map[state]int, len(claims))
	for i := range claims {
		l := &claims[i].Limit.n.spec
		s := state{claims[i].Key, l.Name, l.Rule, l.Namespace, l.FromCaller}
		if j, ok := seen[s]; ok {
			return stateTwice(j, i)
		}
		seen[s] = i
	}
	return nil
}

func stateTwice(i, j int) error {
	return invalid(fmt.Sprintf("group: claims %d and %d are of the same limit and key", i, j), "merge them and add their costs, or put them into groups of their own")
}
