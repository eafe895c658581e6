package stint

// Sliding window counter: the window W is divided into S buckets of width w. One
// more bucket, the oldest, counts by the fraction of it that the window still
// covers. With c = ⌊t/w⌋,
//
//	estimate = Σ count[c−S+1 … c] + count[c−S]·(1 − (t − c·w)/w)
//
// and a request of cost q is allowed iff estimate + q ≤ N. S = 1 is the
// classic pair of counters (Cloudflare, "How we built rate limiting capable
// of scaling to millions of domains", 2017).
//
// Counts are whole. For a whole K, estimate ≤ K therefore holds iff it holds
// with the oldest bucket's part rounded up, and rounding loses nothing.

// counters are the counts of S + 1 buckets. newest is the number of the newest
// bucket since the epoch. Bucket b is at ring[b mod (S + 1)].
type counters struct {
	newest int64
	ring   []int64
}

func (s counters) count(b int64) int64 {
	if b < 0 || b > s.newest || b <= s.newest-int64(len(s.ring)) {
		return 0
	}
	return s.ring[b%int64(len(s.ring))]
}

// advance makes b the newest bucket and clears the buckets after the previous
// newest.
func (s *counters) advance(b int64) {
	size := int64(len(s.ring))
	for i := max(s.newest+1, b-size+1); i <= b; i++ {
		s.ring[i%size] = 0
	}
	s.newest = b
}

// stepTwoCounters is the step for S = 1. Its state is packed: the number of the
// newer bucket, and the two counts by bucket number mod 2.
func (n *compiledLimit) stepTwoCounters(c packed, known bool, a *input, r *result) packed {
	ring := [2]int64{int64(c.Lo >> 32), int64(c.Lo & (1<<32 - 1))}
	s := counters{newest: int64(c.Hi), ring: ring[:]}
	if !known {
		ring = [2]int64{}
		s.newest = a.now / n.width
	}
	n.count(&s, a, r)
	if r.write {
		c = packed{uint64(s.newest), uint64(ring[0])<<32 | uint64(ring[1])}
	}
	return c
}

// stepCounters is the step for S > 1. Its state is {number of the newest bucket,
// counts of S + 1 buckets}.
func (n *compiledLimit) stepCounters(w []int64, a *input, r *result) []int64 {
	known := len(w) > 0
	if !known {
		w = w[:n.buckets+2]
		clear(w)
		w[0] = a.now / n.width
	}
	s := counters{newest: w[0], ring: w[1:]}
	n.count(&s, a, r)
	w[0] = s.newest
	if !known && !r.write {
		w = w[:0]
	}
	return w
}

func (n *compiledLimit) count(s *counters, a *input, r *result) {
	r.now = max(a.now, s.newest*n.width)
	current := r.now / n.width
	room := n.room(s, r.now)
	r.allowed = a.cost <= max(0, room)
	switch {
	case a.dry:
	case a.cost < 0:
		r.write = s.refund(takenAt(a, r.now)/n.width, current, -a.cost)
	case r.allowed:
		r.granted = min(a.extra, max(0, room-a.cost))
		if r.write = a.cost+r.granted > 0; r.write {
			s.advance(current)
			s.ring[current%int64(len(s.ring))] += a.cost + r.granted
		}
	}
	n.reportCounters(r, s, a.cost)
}

// room returns ⌊N − estimate⌋ at t. It is below 0 after the limit was lowered.
func (n *compiledLimit) room(s *counters, t int64) int64 {
	current, size := t/n.width, int64(n.buckets)
	sum := int64(0)
	for b := current - size + 1; b <= current; b++ {
		sum += s.count(b)
	}
	old := s.count(current - size)
	return n.max - sum - mulDivUp(old, (current+1)*n.width-t, 0, n.width)
}

// refund removes units from bucket b while b has weight in the estimate. A refund
// is bounded by the allowance: the count never falls below 0. It reports whether
// anything changed.
func (s *counters) refund(b, current, units int64) bool {
	size := int64(len(s.ring))
	if b <= current-size || b > current || s.count(b) == 0 {
		return false
	}
	s.ring[b%size] = max(0, s.ring[b%size]-units)
	return true
}

func (n *compiledLimit) reportCounters(r *result, s *counters, cost int64) {
	r.remaining = max(0, n.room(s, r.now))
	if !r.allowed && cost <= n.max {
		r.retry = n.roomAt(s, r.now, cost) - r.now
	}
	last := s.lastCounted(r.now / n.width)
	if last < 0 {
		return
	}
	r.reset = (last+int64(n.buckets)+1)*n.width - r.now
	if r.remaining < n.max {
		r.next = n.roomAt(s, r.now, r.remaining+1) - r.now
	}
}

// lastCounted returns the newest bucket that has a count and weight in the
// estimate, or −1.
func (s *counters) lastCounted(current int64) int64 {
	for b := s.newest; b > current-int64(len(s.ring)) && b > s.newest-int64(len(s.ring)); b-- {
		if s.count(b) > 0 {
			return b
		}
	}
	return -1
}

// roomAt returns the first time from t on at which a request of the given cost,
// at most N, is allowed. The estimate is piecewise linear with one piece for
// each bucket: within bucket c+i it is sum + old·(w − o)/w at offset o. The
// answer lies in the first piece that ends at or below N − cost.
func (n *compiledLimit) roomAt(s *counters, t, cost int64) int64 {
	size, allowed := int64(n.buckets), n.max-cost
	current := t / n.width
	sum := int64(0)
	for b := current - size + 1; b <= current; b++ {
		sum += s.count(b)
	}
	for i := int64(0); ; i++ {
		start, old := (current+i)*n.width, s.count(current+i-size)
		if spare := allowed - sum; spare >= old {
			return max(t, start)
		} else if spare >= 0 {
			share, _ := mulDiv(spare, n.width, 0, old)
			return max(t, start+n.width-share)
		}
		sum -= s.count(current + i - size + 1) // the bucket becomes the oldest, which counts in part
	}
}
