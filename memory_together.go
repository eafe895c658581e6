package stint

import (
	"cmp"
	"slices"

	"github.com/stintdev/stint/internal/table"
)

// decideTogether decides the claims of one group under all their locks.
func (g *groupCall) decideTogether(queries []query, order []int32, claims []Claim, out []Decision, charge bool) bool {
	g.lock(queries, order)
	ok := charge && g.chargeAll(queries, claims, out)
	if !ok {
		ok = g.chargeAllowed(queries, claims, out, charge)
	}
	g.unlock(queries, order)
	return ok
}

// chargeAllowed decides the claims first without charging, then, when the
// group is admitted, charging those that allow.
func (g *groupCall) chargeAllowed(queries []query, claims []Claim, out []Decision, charge bool) bool {
	for i := range claims {
		g.step(&queries[i], &claims[i], true, &out[i])
	}
	ok := admitted(claims, out)
	for i := range claims {
		if ok && charge && out[i].Allowed {
			g.step(&queries[i], &claims[i], false, &out[i])
		}
	}
	return ok
}

// chargeAll is chargeAllowed for nearly every group, in one step a claim: of
// plain claims on narrow states that are there, and which all allow. It
// reports false, and has changed no state, when the group is another.
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

// stepAhead takes the step of a claim and keeps the state that follows. It
// reports false when that is not all there is to do, or the claim is denied.
func (g *groupCall) stepAhead(q *query, c *Claim, d *Decision) bool {
	if !c.sound() || q.n.wide() {
		return false
	}
	slot := q.shard.Find(q.id)
	if slot == nil || slot.Ref() != q.ref {
		return false
	}
	*d = Decision{}
	if q.n.isBucket() {
		next, after, allowed := q.n.takePlain(cell(slot.State), g.now, c.Cost)
		q.next = next
		q.n.tellPlain(d, after, g.now, c.Cost, allowed)
		return allowed
	}
	a := ask{now: g.now, cost: c.Cost}
	var r result
	q.next = q.n.step(cell(slot.State), q.n, &a, &r)
	q.n.decide(d, &r, &a)
	return r.allowed
}

// step decides one claim whose shard is locked.
func (g *groupCall) step(q *query, c *Claim, dry bool, d *Decision) {
	a := ask{dry: dry}
	c.ask(&a, g.now)
	var r result
	g.memory.step(q.shard, q, &a, &r)
	*d = Decision{}
	q.n.decide(d, &r, &a)
}

// lock locks the shards of the queries, in the order of their numbers so that
// no two groups wait for each other. It begins again when one of them was
// parted before it was locked.
func (g *groupCall) lock(queries []query, order []int32) {
	for {
		for i := range queries {
			order[i], queries[i].shard = int32(i), g.memory.table.Shard(queries[i].id)
		}
		slices.SortFunc(order, func(i, j int32) int {
			return cmp.Compare(queries[i].shard.Number(), queries[j].shard.Number())
		})
		eachShard(queries, order, func(s *table.Shard) { s.LockAt(g.now) })
		if ownAll(queries) {
			return
		}
		eachShard(queries, order, (*table.Shard).Unlock)
	}
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

// eachShard calls f once for each shard of the queries, which are in order.
func eachShard(queries []query, order []int32, f func(*table.Shard)) {
	for i, o := range order {
		if i == 0 || queries[order[i-1]].shard != queries[o].shard {
			f(queries[o].shard)
		}
	}
}
