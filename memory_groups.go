package stint

import (
	"cmp"
	"context"
	"slices"

	"github.com/stintdev/stint/internal/groupcall"
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
	order   []int32 // the claims of one part of a group, sorted by shard
	out     []Decision
}

// TakeGroups decides the groups one after the other, all at the same time of
// the clock.
func (m *Memory) TakeGroups(_ context.Context, groups []Group, out []Decision) error {
	if claims, _ := Sizes(groups); claims != len(out) {
		return invalid(groupcall.WrongLength(claims, len(out)))
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
	call := groupCall{memory: m, now: m.clock.Now(), groups: groups}
	call.run(&batch{queries[:], errs[:], order[:], out}, 0, len(groups))
	return call.err()
}

func (m *Memory) takeMany(groups []Group, out []Decision) error {
	var (
		queries [batchSize]query
		errs    [batchSize]error
		order   [batchSize]int32
	)
	b := batch{queries[:], errs[:], order[:], nil}
	call := groupCall{memory: m, now: m.clock.Now(), groups: groups}
	for from := 0; from < len(groups); {
		to, claims := nextBatch(groups, from)
		if claims > batchSize {
			b = batch{make([]query, claims), make([]error, claims), make([]int32, claims), nil}
		}
		b.out, out = out[:claims], out[claims:]
		call.run(&b, from, to)
		from = to
	}
	return call.err()
}

// nextBatch returns the end of the range of groups, beginning at from, whose
// claims fit into a batch, and the number of their claims. The range has at
// least one group.
func nextBatch(groups []Group, from int) (to, claims int) {
	for to = from; to < len(groups); to++ {
		n := len(groups[to].Claims)
		for _, shadow := range groups[to].Shadows {
			n += len(shadow)
		}
		if to > from && claims+n > batchSize {
			break
		}
		claims += n
	}
	return to, claims
}

// groupCall is one call of TakeGroups.
type groupCall struct {
	memory *Memory
	now    int64
	groups []Group
	part   int // how many parts of the groups are decided
	failed groupcall.Errors
}

// run looks up the claims of groups[from:to] and decides them. The batch has their
// decisions. A shadow is charged only if the group that it observes is admitted and not
// dry.
func (g *groupCall) run(b *batch, from, to int) {
	g.lookUp(b, from, to)
	first := 0
	for i := from; i < to; i++ {
		group := &g.groups[i]
		admitted, err := g.decideLeader(b, group, first)
		if err != nil {
			g.fail(err, b.out[first:first+len(group.Claims)])
		}
		first += len(group.Claims)
		g.part++
		for _, shadow := range group.Shadows {
			if _, err := g.decide(b, shadow, first, admitted && !group.Dry); err != nil {
				g.fail(err, b.out[first:first+len(shadow)])
			}
			first += len(shadow)
			g.part++
		}
	}
}

func (g *groupCall) fail(err error, out []Decision) {
	g.failed.Set(g.part, func() int { _, parts := Sizes(g.groups); return parts }, err)
	clear(out)
}

func (g *groupCall) err() error {
	if g.failed == nil {
		return nil
	}
	return &GroupsError{Errs: g.failed}
}

// lookUp prepares the claims. It prefetches first all their keys and then all
// their slots, so that the cache misses overlap.
func (g *groupCall) lookUp(b *batch, from, to int) {
	for i := from; i < to; i++ {
		claims := g.groups[i].Claims
		for j := range claims {
			table.Fetch(claims[j].Key)
		}
		for _, shadow := range g.groups[i].Shadows {
			for j := range shadow {
				table.Fetch(shadow[j].Key)
			}
		}
	}
	k := 0
	for i := from; i < to; i++ {
		claims := g.groups[i].Claims
		for j := range claims {
			b.errs[k] = g.memory.prepare(&b.queries[k], &claims[j])
			k++
		}
		for _, shadow := range g.groups[i].Shadows {
			for j := range shadow {
				b.errs[k] = g.memory.prepare(&b.queries[k], &shadow[j])
				k++
			}
		}
	}
	for i := range k {
		if q := &b.queries[i]; b.errs[i] == nil {
			q.states.table.Touch(q.id)
		}
	}
}

// decide decides a part of a group, whose claims begin at first in the batch.
func (g *groupCall) decide(b *batch, claims []Claim, first int, charge bool) (admitted bool, err error) {
	out := b.out[first : first+len(claims)]
	for i := range out {
		if err := b.errs[first+i]; err != nil {
			return false, err
		}
	}
	if len(out) == 1 {
		err := g.decideAlone(&b.queries[first], &claims[0], &out[0], charge)
		return err == nil && out[0].Allowed, err
	}
	if err := checkDistinct(claims); err != nil {
		return false, err
	}
	return g.decideTogether(b.queries[first:first+len(out)], b.order[:len(out)], claims, out, charge)
}

// decideAlone decides a part of one claim.
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

// decideTogether decides the claims of one part with all their shards locked.
func (g *groupCall) decideTogether(queries []query, order []int32, claims []Claim, out []Decision, charge bool) (ok bool, err error) {
	g.lock(queries, order)
	if ok = charge && g.chargeAll(queries, claims, out); !ok {
		ok, err = g.chargeAllowed(queries, claims, out, charge)
	}
	g.unlock(queries, order)
	return ok, err
}

// chargeAllowed is the general path, in two passes: it decides the claims
// without charging, then charges the allowed ones if the group is admitted. In
// a table that refuses, a charge can fail because the table is full. Such
// charges are made first, in makeRoom, and undone if one of them fails.
func (g *groupCall) chargeAllowed(queries []query, claims []Claim, out []Decision, charge bool) (bool, error) {
	for i := range claims {
		g.step(&queries[i], &claims[i], true, &out[i])
	}
	if !admitted(claims, out) {
		return false, nil
	}
	if !charge {
		return true, nil
	}
	if !g.makeRoom(queries, claims, out) {
		return false, errNoRoom()
	}
	for i := range claims {
		if q := &queries[i]; out[i].Allowed && !q.done {
			g.step(q, &claims[i], false, &out[i])
		}
	}
	releaseReserved(queries)
	return true, nil
}

// makeRoom ensures room for the charges that a full table can refuse. It reports
// false, with nothing charged, if there is no room for one of them.
//
// It charges keys without a state at once, because deleting the state undoes
// that, and reserves room for the others. Making room for one claim may evict
// the state of another claim of the group, which is then decided as fresh.
func (g *groupCall) makeRoom(queries []query, claims []Claim, out []Decision) bool {
	for i := range queries {
		if q := &queries[i]; q.states.refuses && out[i].Allowed && q.shard.Find(q.id) == nil {
			if q.done = g.step(q, &claims[i], false, &out[i]); !q.done {
				undo(queries)
				return false
			}
		}
	}
	for i := range queries {
		if q := &queries[i]; q.states.refuses && out[i].Allowed && !q.done {
			var a input
			claims[i].asInput(&a, g.now)
			if a.cost+a.extra > 0 && !q.states.reserve(q.shard, q, &a) {
				undo(queries)
				return false
			}
		}
	}
	return true
}

// undo deletes the states that makeRoom made and releases what it reserved.
func undo(queries []query) {
	for i := range queries {
		if q := &queries[i]; q.done {
			q.shard.Delete(q.id)
		}
	}
	releaseReserved(queries)
}

func releaseReserved(queries []query) {
	for i := range queries {
		if q := &queries[i]; q.reserved != 0 {
			q.states.limits.release(q.reserved)
		}
	}
}

// chargeAll is the fast path for nearly every group. It takes one step for each
// claim, and applies when all claims are plain, have an existing narrow state
// and are allowed. Otherwise it reports false and has changed no state.
func (g *groupCall) chargeAll(queries []query, claims []Claim, out []Decision) bool {
	for i := range claims {
		if !g.stepAhead(&queries[i], &claims[i], &out[i]) {
			return false
		}
	}
	for i := range queries {
		q := &queries[i]
		q.shard.Find(q.id).State = table.State(q.next)
	}
	return true
}

// stepAhead takes the step of a claim and keeps the next state in the query. It
// reports false if the claim is denied or does not qualify for the fast path.
func (g *groupCall) stepAhead(q *query, c *Claim, d *Decision) bool {
	if !c.isPlain() || q.n.wide() {
		return false
	}
	slot := q.shard.Find(q.id)
	if slot == nil || slot.Ref() != q.states.limits.cached(q.n) {
		return false
	}
	*d = Decision{}
	if q.n.isBucket() {
		next, after, allowed := q.n.takePlain(packed(slot.State), g.now, c.Cost)
		q.next = next
		q.n.reportPlain(d, after, g.now, c.Cost, allowed)
		return allowed
	}
	a := input{now: g.now, cost: c.Cost, maxDelay: c.MaxDelay}
	var r result
	q.next = q.n.step(packed(slot.State), q.n, &a, &r)
	q.n.decide(d, &r, &a)
	return r.allowed
}

// step decides one claim whose shard is locked. It reports false when the
// charge is refused because the table is full.
func (g *groupCall) step(q *query, c *Claim, dry bool, d *Decision) bool {
	a := input{dry: dry}
	c.asInput(&a, g.now)
	var r result
	ok := q.states.step(q.shard, q, &a, &r)
	*d = Decision{}
	q.n.decide(d, &r, &a)
	return ok
}

// lock locks the shards of the queries. All groups lock in the same order, so
// they cannot deadlock: first the shards of the main table, then those of the
// callers' table, each in the order of their numbers. lock starts again if a
// shard was split before it was locked and no longer owns its identity.
func (g *groupCall) lock(queries []query, order []int32) {
	for {
		for i := range queries {
			order[i], queries[i].shard = int32(i), queries[i].states.table.Shard(queries[i].id)
		}
		slices.SortFunc(order, func(i, j int32) int {
			a, b := &queries[i], &queries[j]
			if a.n.fromCaller != b.n.fromCaller {
				return cmp.Compare(asInt(a.n.fromCaller), asInt(b.n.fromCaller))
			}
			return cmp.Compare(a.shard.Number(), b.shard.Number())
		})
		eachShard(queries, order, func(s *table.Shard) { s.LockAt(g.now) })
		if ownAll(queries) {
			return
		}
		eachShard(queries, order, (*table.Shard).Unlock)
	}
}

func asInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

func ownAll(queries []query) bool {
	for i := range queries {
		if !queries[i].shard.Owns(queries[i].id) {
			return false
		}
	}
	return true
}

func (g *groupCall) unlock(queries []query, order []int32) {
	eachShard(queries, order, func(s *table.Shard) { s.Release(g.now) })
}

// eachShard calls f once for each shard of the queries, in the given order.
func eachShard(queries []query, order []int32, f func(*table.Shard)) {
	for i, o := range order {
		if i == 0 || queries[order[i-1]].shard != queries[o].shard {
			f(queries[o].shard)
		}
	}
}
