package stint

import "github.com/stintdev/stint/internal/table"

// stepWide is step for a limit whose state is a slice beside the table.
func (m *Memory) stepWide(shard *table.Shard, q *query, a *ask, r *result) {
	slot := shard.Find(q.id)
	w := shard.Wide(slot)
	if room := q.n.wideRoom(len(w), a); cap(w) < room {
		if !q.n.wouldGrow(w, a, r) {
			return
		}
		*r = result{}
		if slot = shard.Widen(q.id, q.ref, q.n.roomAhead(room, cap(w)), a.now); slot == nil {
			q.n.stepWide(append(make([]int64, 0, room), w...), a, r)
			return
		}
		w = shard.Wide(slot)
	}
	w = q.n.stepWide(w, a, r)
	switch {
	case r.forget:
		shard.Delete(q.id)
	case r.write:
		shard.SetWide(slot, w)
		slot.SetRef(q.ref)
	}
}

// wouldGrow decides without charging, for a state that lacks room, and
// reports whether a charge would follow. If not, r is the result.
func (n *numbers) wouldGrow(w []int64, a *ask, r *result) bool {
	var fresh [MaxBuckets + 2]int64
	if n.alg == SlidingWindowCounter {
		w = fresh[:0]
	}
	dry := *a
	dry.dry = true
	n.stepWide(w, &dry, r)
	return r.allowed && !a.dry && a.cost+a.extra > 0
}

// roomAhead is the capacity to give a slice that needs room: twice what it
// has, so that a log is copied seldom, but no more than it can ever use.
func (n *numbers) roomAhead(room, have int) int {
	if n.alg == SlidingWindowCounter {
		return room
	}
	return max(room, min(max(8, 2*have), int(n.max)))
}
