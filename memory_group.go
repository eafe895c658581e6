package stint

import (
	"cmp"
	"slices"

	"github.com/stintdev/stint/internal/table"
)

// decideTogether decides the claims of one group under all their locks.
func (g *groupCall) decideTogether(queries []query, order []int32, claims []Claim, out []Decision, charge bool) (ok bool, err error) {
	g.lock(queries, order)
	if ok = charge && g.chargeAll(queries, claims, out); !ok {
		ok, err = g.chargeAllowed(queries, claims, out, charge)
	}
	g.unlock(queries, order)
	return ok, err
}

// chargeAllowed decides the claims first without charging, then, when the
// group is admitted, charging those that allow. A charge may be refused for
// want of room. Those that may be are made first, and undone when one is.
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

// makeRoom makes the charges that can be refused for want of room certain to
// find some, and reports false, with nothing charged, when one would not. Keys
// without a state are charged at once, which deleting the state undoes; for the
// others room is reserved. (Room for one may come from evicting another of the
// group, which is decided as fresh then.)
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

// undo drops the states that makeRoom has made, and what it reserved.
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
// charge is refused for want of room.
func (g *groupCall) step(q *query, c *Claim, dry bool, d *Decision) bool {
	a := input{dry: dry}
	c.asInput(&a, g.now)
	var r result
	ok := q.states.step(q.shard, q, &a, &r)
	*d = Decision{}
	q.n.decide(d, &r, &a)
	return ok
}

// lock locks the shards of the queries, callers' last and each table's in the
// order of their numbers, so that no two groups wait for each other. It begins again when one of them was
// parted before it was locked.
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

// eachShard calls f once for each shard of the queries, which are in order.
func eachShard(queries []query, order []int32, f func(*table.Shard)) {
	for i, o := range order {
		if i == 0 || queries[order[i-1]].shard != queries[o].shard {
			f(queries[o].shard)
		}
	}
}
