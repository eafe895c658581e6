package stint

import "slices"

// Sliding window log: a unit admitted at a counts until a + W, that moment
// excluded. Allow iff counted + q ≤ N. Exact, at the price of one time kept
// for each unit that counts.

// stepLog keeps the times of admitted units, oldest first.
func (n *numbers) stepLog(w []int64, a *ask, r *result) []int64 {
	r.now = a.now
	if len(w) > 0 {
		r.now = max(a.now, w[len(w)-1])
	}
	live := w[n.expired(w, r.now):]
	r.allowed = a.cost <= max(0, n.max-int64(len(live)))
	switch {
	case a.dry:
	case a.cost < 0:
		live, r.write = removeTimes(live, takenAt(a, r.now), -a.cost)
	case r.allowed:
		r.granted = min(a.extra, max(0, n.max-int64(len(live))-a.cost))
		r.write = a.cost+r.granted > 0
	}
	if r.write {
		w = w[:copy(w[:len(live)], live)]
		for range max(0, a.cost) + r.granted {
			w = append(w, r.now) // within the capacity: no allocation
		}
		live, r.forget = w, len(w) == 0
	}
	n.tellLog(r, live, a.cost)
	return w
}

// expired is how many of the times no longer count at t.
func (n *numbers) expired(w []int64, t int64) int {
	k, _ := slices.BinarySearch(w, t-n.window+1)
	return k
}

// removeTimes removes up to so many units that were admitted exactly at.
func removeTimes(w []int64, at, units int64) ([]int64, bool) {
	from, _ := slices.BinarySearch(w, at)
	to, _ := slices.BinarySearch(w, at+1)
	to = int(min(int64(to), int64(from)+units))
	if from == to {
		return w, false
	}
	return append(w[:from], w[to:]...), true
}

func (n *numbers) tellLog(r *result, live []int64, cost int64) {
	counted := int64(len(live))
	r.remaining = max(0, n.max-counted)
	if counted == 0 {
		return
	}
	// leaves is how long until k units have left, oldest first.
	leaves := func(k int64) int64 { return live[k-1] + n.window - r.now }
	r.reset = leaves(counted)
	r.next = leaves(counted + r.remaining + 1 - n.max)
	if !r.allowed && cost <= n.max {
		r.retry = leaves(counted + cost - n.max)
	}
}
