package stint

// Fixed window: a count that starts again at each multiple of the window.
// Allow iff count + q ≤ N. Two windows side by side can admit 2·N in any
// window's length, at their seam: that is the algorithm, not an error.
//
// A quota is the same count in the periods of a calendar.

// stepWindow keeps {start of the window or period, count}.
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
// t lies in: from start until before end.
func (n *compiledLimit) period(t int64) (start, end int64) {
	if n.alg == Quota {
		return n.calendar.period(t)
	}
	start = floorDiv(t, n.window) * n.window
	return start, start + n.window
}
