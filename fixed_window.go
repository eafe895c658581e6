package stint

// Fixed window: a count that restarts at each multiple of the window. Allow iff
// count + q ≤ N. Around the boundary of two windows, up to 2·N can be admitted
// within one window's length. That is a property of the algorithm.
//
// A quota is the same count in the periods of a calendar.

// stepWindow is the step of a fixed window or a quota. Its state is {start of
// the window or period, count}. A refund is bounded by the allowance: it counts only
// in the window in which the units were taken, and the count never falls below 0.
func (n *compiledLimit) stepWindow(c packed, known bool, a *input, r *result) packed {
	r.now = a.now
	if known {
		r.now = max(a.now, int64(c.Hi))
	}
	start, end := n.period(r.now)
	count := int64(0)
	if known && int64(c.Hi) == start {
		count = int64(c.Lo)
	}
	r.allowed = a.cost <= max(0, n.max-count)
	switch {
	case a.dry:
	case a.cost < 0:
		at := takenAt(a, r.now)
		r.write = count > 0 && start <= at && at < end
		if r.write {
			count = max(0, count+a.cost)
		}
	case r.allowed:
		r.granted = min(a.extra, max(0, n.max-count-a.cost))
		count += a.cost + r.granted
		r.write = a.cost+r.granted > 0
	}
	n.reportWindow(r, count, end)
	if r.write {
		c = packed{uint64(start), uint64(count)}
	}
	return c
}

func (n *compiledLimit) reportWindow(r *result, count, end int64) {
	r.remaining = max(0, n.max-count)
	r.retry = end - r.now
	if count > 0 {
		r.reset, r.next = r.retry, r.retry
	}
}

// period returns the window of a fixed window, or the period of a quota, that
// contains t. It includes start and excludes end.
func (n *compiledLimit) period(t int64) (start, end int64) {
	if n.alg == Quota {
		return n.calendar.period(t)
	}
	start = floorDiv(t, n.window) * n.window
	return start, start + n.window
}
