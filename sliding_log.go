package stint

import "sort"

// Sliding window log: a unit admitted at a counts until a + W, that moment
// excluded. Allow iff counted + q ≤ N. The log is exact, and keeps one run for
// each time at which units were admitted.
//
// A run is two words: the time, and how many units the log has admitted up to
// and including that time, counted from its first run. Times and totals ascend,
// so both the number of units that count and the time at which the k-th of them
// leaves are found by binary search, however many units a run has.

// runWords is the length of a run in words.
const runWords = 2

// logRoom returns the greatest capacity of a log in words: one run for each unit
// that can count at once, and an eighth more. With that spare room, even a log
// whose units all have different times seldom moves its runs to the front.
func (n *compiledLimit) logRoom() int { return runWords * int(n.max+n.max/8) }

// stepLog is the step of a log. Its state is the runs of admitted units, oldest
// first. Runs that no longer count stay in front until their room is needed.
func (n *compiledLimit) stepLog(w []int64, a *input, r *result) []int64 {
	r.now = a.now
	if len(w) > 0 {
		r.now = max(a.now, newestRun(w))
	}
	first := n.firstLive(w, r.now)
	room := max(0, n.max-unitsFrom(w, first))
	r.allowed = a.cost <= room
	switch {
	case a.dry:
	case a.cost < 0:
		w, r.write = refundRun(w, first, takenAt(a, r.now), -a.cost)
	case r.allowed:
		r.granted = min(a.extra, room-a.cost)
		if r.write = a.cost+r.granted > 0; r.write {
			w, first = appendRun(w, first, r.now, a.cost+r.granted)
		}
	}
	if r.write && a.cost < 0 {
		first, r.forget = 0, len(w) == 0
	}
	n.reportLog(r, w, first, a.cost)
	return w
}

func newestRun(w []int64) int64 { return w[len(w)-runWords] }

// firstLive returns the index of the first run that counts at t.
func (n *compiledLimit) firstLive(w []int64, t int64) int { return findRun(w, t-n.window+1) }

// findRun returns the index of the first run that is not before t.
func findRun(w []int64, t int64) int {
	return runWords * sort.Search(len(w)/runWords, func(i int) bool { return w[runWords*i] >= t })
}

// unitsBefore returns the number of units in the runs before a run.
func unitsBefore(w []int64, run int) int64 {
	if run == 0 {
		return 0
	}
	return w[run-1]
}

// unitsFrom returns the number of units in the runs from one run on.
func unitsFrom(w []int64, run int) int64 {
	if run == len(w) {
		return 0
	}
	return w[len(w)-1] - unitsBefore(w, run)
}

// appendRun charges units at a time that is not before the newest run, within
// the capacity. It returns the new index of the first run that counts.
func appendRun(w []int64, first int, t, units int64) ([]int64, int) {
	if len(w) > 0 && newestRun(w) == t {
		w[len(w)-1] += units
		return w, first
	}
	if len(w)+runWords > cap(w) {
		w, first = dropRuns(w, first), 0
	}
	return append(w, t, unitsBefore(w, len(w))+units), first
}

// dropRuns drops the runs before first and moves the others to the front.
func dropRuns(w []int64, first int) []int64 {
	if first == 0 {
		return w
	}
	gone, live := unitsBefore(w, first), w[first:]
	for i := 0; i+1 < len(live); i += runWords {
		w[i], w[i+1] = live[i], live[i+1]-gone
	}
	return w[:len(live)]
}

// refundRun removes up to the given units that were admitted exactly at the time
// at. It also drops the runs that no longer count: the newest time can become
// smaller, and those runs would then count again. A refund is bounded by the
// allowance: it removes no more than was admitted at that time. It reports whether
// anything changed.
func refundRun(w []int64, first int, at, units int64) ([]int64, bool) {
	run := max(first, findRun(w, at))
	if run == len(w) || w[run] != at {
		return w, false
	}
	run -= first
	w = dropRuns(w, first)
	has := w[run+1] - unitsBefore(w, run)
	if units = min(units, has); units == has {
		w = append(w[:run], w[run+runWords:]...)
	}
	for i := run + 1; i < len(w); i += runWords {
		w[i] -= units
	}
	return w, true
}

func (n *compiledLimit) reportLog(r *result, w []int64, first int, cost int64) {
	counted := unitsFrom(w, first)
	r.remaining = max(0, n.max-counted)
	if counted == 0 {
		return
	}
	// leaves returns how long until the k oldest units no longer count.
	leaves := func(k int64) int64 { return timeOfUnit(w, first, k) + n.window - r.now }
	r.reset = leaves(counted)
	r.next = leaves(counted + r.remaining + 1 - n.max)
	if !r.allowed && cost <= n.max {
		r.retry = leaves(counted + cost - n.max)
	}
}

// timeOfUnit returns when the k-th unit from run first on was admitted.
func timeOfUnit(w []int64, first int, k int64) int64 {
	live, total := w[first:], unitsBefore(w, first)+k
	if live[1] >= total {
		return live[0]
	}
	return live[runWords*sort.Search(len(live)/runWords, func(i int) bool { return live[runWords*i+1] >= total })]
}
