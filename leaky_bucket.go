package stint

// Leaky bucket as a queue, a shaper: requests drain at r = limit/window, and at
// most queue of them wait. It is the inverse of the token bucket (see
// bucket.go): the state is the level v, the units that were admitted and have
// not drained.
//
// v(t) = max(0, v − r·(t − last)); a new key has level 0; a request of cost q
// waits v/r; it is allowed iff v + q ≤ queue + 1 and that wait is at most the
// lesser of the limit's MaxWait and the claim's MaxDelay; then v becomes v + q.

// chargeLeaky is the step of a leaky bucket on its level. known reports whether
// the key has a state.
func (n *compiledLimit) chargeLeaky(b bucket, known bool, a *input, r *result) bucket {
	if known {
		b = n.drain(b, a.now)
	} else {
		b = bucket{last: a.now}
	}
	room := n.full - b.whole - min(b.frac, 1) // a fraction of a micro-unit takes the room of a whole one
	r.now = b.last
	r.allowed = a.cost <= 0 || a.cost*microUnits <= room && n.untilServed(b.whole, b.frac, n.maxDelay(a), b.last-a.now) == 0
	r.ahead, r.aheadFrac = b.whole, b.frac
	if r.allowed && a.cost >= 0 && !a.dry {
		r.granted = min(a.extra, max(0, room-a.cost*microUnits)/microUnits)
		b.whole += (a.cost + r.granted) * microUnits
		r.write = a.cost+r.granted > 0
	}
	if a.dry || a.cost < 0 {
		r.ahead, r.aheadFrac = 0, 0 // nothing was put into the queue
	}
	r.whole, r.frac = b.whole, b.frac
	return b
}

// drain advances the level to max(now, last). With e the time since last, the
// level becomes (v·q − e·p)/q, at least 0.
func (n *compiledLimit) drain(b bucket, now int64) bucket {
	e := max(0, now-b.last)
	b.last += e
	b.frac = min(b.frac, n.q-1)
	lost, rest := mulDiv(e, n.p, 0, n.q)
	b.frac -= rest
	if b.frac < 0 {
		b.frac += n.q
		b.whole--
	}
	if b.whole -= lost; b.whole < 0 {
		b.whole, b.frac = 0, 0
	}
	return b
}

// emptied returns how long a level takes to drain.
func (n *compiledLimit) emptied(whole, frac int64) int64 { return mulDivUp(whole, n.q, frac, n.p) }

// maxDelay returns the greatest delay that the limit and a claim allow, in
// microseconds; maxMicros stands for any.
func (n *compiledLimit) maxDelay(a *input) int64 {
	switch {
	case a.maxDelay == 0:
		return n.maxWait
	case a.maxDelay < 0:
		return 0
	}
	return min(n.maxWait, a.maxDelay.Microseconds())
}

// GreatestDelay returns the greatest delay that a valid claim allows, in
// microseconds: the lesser of its MaxDelay and the MaxWait of its limit.
// 2^53 − 1 stands for any. It is for stores that take the step elsewhere, such as
// in a script on a server.
func (c *Claim) GreatestDelay() int64 {
	if c.Limit.n.alg != LeakyBucket {
		return maxMicros
	}
	return c.Limit.n.maxDelay(&input{maxDelay: c.MaxDelay})
}

// served returns the greatest level that drains within most microseconds of the
// caller's now. The step's time is gap ahead of that now.
func (n *compiledLimit) served(most, gap int64) (whole, frac int64) {
	if most == maxMicros {
		return maxMicros, 0 // above every level
	}
	return mulDiv(max(0, most-gap), n.p, 0, n.q)
}

// untilServed returns how long until a level drains within most microseconds; 0
// when it does now. The wait is exact: each microsecond shortens the delay by
// one.
func (n *compiledLimit) untilServed(whole, frac, most, gap int64) int64 {
	w, f := n.served(most, gap)
	if whole < w || whole == w && frac <= f {
		return 0
	}
	return n.emptied(whole-w, frac-f) + max(0, gap-most)
}

// untilRoom returns how long until a level leaves room for a cost; 0 when it
// does now.
func (n *compiledLimit) untilRoom(whole, frac, cost, gap int64) int64 {
	over := whole + cost*microUnits - n.full
	if over < 0 || over == 0 && frac == 0 {
		return 0
	}
	return gap + n.emptied(over, frac)
}

func (n *compiledLimit) reportLeaky(d *Decision, r *result, a *input, gap int64) {
	most := n.maxDelay(a)
	d.Remaining = min(max(0, n.full-r.whole-min(r.frac, 1))/microUnits, n.places(r.whole, r.frac, most, gap))
	if r.whole > 0 || r.frac > 0 {
		d.ResetAfter = micros(gap + n.emptied(r.whole, r.frac))
	}
	if d.Remaining < min(n.max, n.places(0, 0, most, 0)) {
		ahead := r.whole + d.Remaining*microUnits
		d.NextAfter = micros(max(n.untilRoom(ahead, r.frac, 1, gap), n.untilServed(ahead, r.frac, most, gap)))
	}
	switch {
	case !r.allowed:
		d.RetryAfter = n.retryAfter(a.cost, max(n.untilRoom(r.whole, r.frac, a.cost, gap), n.untilServed(r.whole, r.frac, most, gap)))
	case r.ahead > 0 || r.aheadFrac > 0:
		d.Delay = micros(gap + n.emptied(r.ahead, r.aheadFrac))
	}
}

// places returns how many requests of cost 1, added one after the other behind a
// level, are served within most microseconds. The k-th of them has k − 1 more
// units ahead of it than the first.
func (n *compiledLimit) places(whole, frac, most, gap int64) int64 {
	w, f := n.served(most, gap)
	if w -= whole; frac > f {
		w--
	}
	if w < 0 {
		return 0
	}
	return w/microUnits + 1
}
