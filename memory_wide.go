package stint

import "github.com/stintdev/stint/internal/table"

// stepWide is step for a limit whose state is a slice beside the table.
func (s *states) stepWide(shard *table.Shard, q *query, a *input, r *result) bool {
	slot := shard.Find(q.id)
	w := shard.Wide(slot)
	if room := q.n.wideRoom(len(w), a); cap(w) < room {
		if !q.n.wouldGrow(w, a, r) {
			return true
		}
		*r = result{}
		if slot = s.widen(shard, q, q.n.roomAhead(room, cap(w)), a.now); slot == nil {
			q.n.stepWide(append(make([]int64, 0, room), w...), a, r)
			return !s.refuses
		}
		w = shard.Wide(slot)
	}
	w = q.n.stepWide(w, a, r)
	switch {
	case r.forget:
		shard.Delete(q.id)
	case r.write:
		shard.SetWide(slot, w)
		if slot.Ref() != s.limits.cached(q.n) {
			// If there is no room, the state keeps the reference of the old
			// limit. That limit has the same window, and the reference only
			// serves to choose which state to evict.
			s.rewrite(shard, slot, q, a.now)
		}
	}
	return true
}

// growsWide gives a state the room that a charge needs. It reports false when
// there is none.
func (s *states) growsWide(shard *table.Shard, q *query, a *input) bool {
	var r result
	w := shard.Wide(shard.Find(q.id))
	room := q.n.wideRoom(len(w), a)
	return cap(w) >= room || !q.n.wouldGrow(w, a, &r) || s.widen(shard, q, q.n.roomAhead(room, cap(w)), a.now) != nil
}

// widen returns the slot of a claim with a slice of the given capacity, or nil
// when there is no room.
func (s *states) widen(shard *table.Shard, q *query, capacity int, now int64) *table.Slot {
	ref := s.limits.hold(q.n)
	slot, made := shard.Widen(q.id, ref, capacity, now)
	if !made {
		s.limits.release(ref)
	}
	return slot
}

// wouldGrow decides the claim without charging, for a state that lacks room,
// and reports whether the claim would be charged. If not, r is the result.
func (n *compiledLimit) wouldGrow(w []int64, a *input, r *result) bool {
	var fresh [MaxBuckets + 2]int64
	if n.alg == SlidingWindowCounter {
		w = fresh[:0]
	}
	dry := *a
	dry.dry, dry.cost = true, max(0, a.cost) // dry, a refund or a Forget is a peek
	n.stepWide(w, &dry, r)
	return r.allowed && !a.dry && a.cost+a.extra > 0
}

// roomAhead returns the capacity for a slice that needs room. A log doubles, so
// that it is seldom copied, up to the greatest capacity that it can use.
func (n *compiledLimit) roomAhead(room, have int) int {
	if n.alg == SlidingWindowCounter {
		return room
	}
	return max(room, min(max(2*runWords, 2*have), n.logRoom()))
}
