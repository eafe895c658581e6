package stint

// Leaky bucket as a queue, the shaper: requests drip out at r = limit/window,
// and at most queue of them wait. Turner's bucket (see bucket.go) turned
// over: the state is the level v of what was admitted and has not dripped
// out.
//
// v(t) = max(0, v − r·(t − last)); a new key has level 0; a request of cost q
// is allowed iff v + q ≤ queue + 1; it waits v/r, then v becomes v + q.

func (n *numbers) stepLeaky(c cell, from *numbers, a *ask, r *result) cell {
	var b bucket
	if from != nil {
		b = from.unpack(c)
	}
	if b = n.chargeLeaky(b, from != nil, a, r); r.write {
		c = n.pack(b)
	}
	return c
}

// chargeLeaky is the step itself. known says that there is a state.
func (n *numbers) chargeLeaky(b bucket, known bool, a *ask, r *result) bucket {
	if known {
		b = n.drain(b, a.now)
	} else {
		b = bucket{last: a.now}
	}
	room := n.full - b.whole - min(b.frac, 1) // a started micro-unit takes its whole place
	r.allowed, r.now = a.cost <= 0 || a.cost*microUnits <= room, b.last
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

// drain brings the level to max(now, last): v·q − e·p over q, at least 0.
func (n *numbers) drain(b bucket, now int64) bucket {
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

// emptied is how long a level takes to drip out.
func (n *numbers) emptied(whole, frac int64) int64 { return mulDivUp(whole, n.q, frac, n.p) }

func (n *numbers) tellLeaky(d *Decision, r *result, cost, gap int64) {
	room := n.full - r.whole - min(r.frac, 1)
	d.Remaining = max(0, room) / microUnits
	if r.whole > 0 || r.frac > 0 {
		d.ResetAfter = micros(gap + n.emptied(r.whole, r.frac))
		d.NextAfter = micros(gap + n.emptied(r.whole+(d.Remaining+1)*microUnits-n.full, r.frac))
	}
	switch {
	case !r.allowed:
		d.RetryAfter = n.retryAfter(cost, gap+n.emptied(r.whole+cost*microUnits-n.full, r.frac))
	case r.ahead > 0 || r.aheadFrac > 0:
		d.Delay = micros(gap + n.emptied(r.ahead, r.aheadFrac))
	}
}
