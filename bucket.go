package stint

import "time"

// Token bucket, and GCRA, which is the same step said in other words.
//
// tokens(t) = min(C, tokens + r·(t − last)); a new key holds C; a request of
// cost q is allowed iff tokens ≥ q. See J. Turner, "New directions in
// communications (or which way to the information age?)", IEEE
// Communications Magazine 24(10), 1986. GCRA (ITU-T I.371, annex A) keeps the
// theoretical arrival time t + (C − tokens)/r instead; with C = burst and
// r = limit/window the two admit the same requests.
//
// Tokens are counted in whole micro-units and a fraction: tokens = whole +
// frac/q micro-units, where the rate is p/q micro-units a microsecond. So
// refilling is integer arithmetic with a remainder, and nothing drifts.

// bucket is the state of a bucket, unpacked.
type bucket struct{ whole, frac, last int64 }

func (n *numbers) stepBucket(c cell, from *numbers, a *ask, r *result) cell {
	var b bucket
	if from != nil {
		b = from.unpack(c)
	}
	if b = n.chargeBucket(b, from != nil, a, r); r.write {
		c = n.pack(b)
	}
	return c
}

// chargeBucket is the step itself. known says that there is a state.
func (n *numbers) chargeBucket(b bucket, known bool, a *ask, r *result) bucket {
	if known {
		b = n.refill(b, a.now)
	} else {
		b = bucket{whole: n.full, last: a.now}
	}
	r.allowed, r.now = a.cost*microUnits <= b.whole, b.last
	switch {
	case a.cost < 0:
		r.write = known && !a.dry
		b = n.giveBack(b, a, r.write)
	case r.allowed && !a.dry:
		b.whole -= a.cost * microUnits
		if a.extra > 0 {
			r.granted = min(a.extra, b.whole/microUnits)
			b.whole -= r.granted * microUnits
		}
		r.write = a.cost+r.granted > 0
	}
	r.whole, r.frac = b.whole, b.frac
	return b
}

func (n *numbers) isBucket() bool { return n.alg <= GCRA }

// takePlain is stepBucket for a sound claim on a state written under the same
// numbers, in registers alone. What it returns goes to tellPlain.
func (n *numbers) takePlain(c cell, now, cost int64) (next cell, b bucket, allowed bool) {
	if !n.short {
		return n.takeLong(c, now, cost)
	}
	b = n.unpackShort(c)
	if e := now - b.last; e > 0 { // a busy key is asked for more than once a microsecond
		b.last = now
		if e < n.fill {
			b = n.gain(b, e)
		} else {
			b.whole, b.frac = n.full, 0
		}
	}
	if b, allowed = b.charge(cost); !allowed || cost == 0 {
		return c, b, allowed
	}
	return n.packShort(b), b, true
}

// takeLong is takePlain for a limit that is not short.
func (n *numbers) takeLong(c cell, now, cost int64) (next cell, b bucket, allowed bool) {
	b = n.refill(n.unpack(c), now)
	if b, allowed = b.charge(cost); !allowed || cost == 0 {
		return c, b, allowed
	}
	return n.pack(b), b, true
}

// charge takes a cost from the bucket, if it holds as much.
func (b bucket) charge(cost int64) (left bucket, allowed bool) {
	if allowed = cost*microUnits <= b.whole; allowed {
		b.whole -= cost * microUnits
	}
	return b, allowed
}

// tellPlain is decide for takePlain.
func (n *numbers) tellPlain(d *Decision, b bucket, now, cost int64, allowed bool) {
	d.Allowed, d.Limit, d.At = allowed, n.max, b.last
	if allowed && n.short && b.whole < n.full && b.last == now { // nearly always; it is quicker than below
		units := uint64(b.whole) / microUnits
		d.Remaining = int64(units)
		d.ResetAfter = time.Duration(n.shortWait(n.full-b.whole, b.frac)) * time.Microsecond
		d.NextAfter = time.Duration(n.shortWait(int64((units+1)*microUnits)-b.whole, b.frac)) * time.Microsecond
		return
	}
	gap := b.last - now
	n.tellTokens(d, b.whole, b.frac, gap)
	if !allowed {
		n.tellRetry(d, b.whole, b.frac, cost, gap)
	}
}

// refill brings the bucket to max(now, last): with e the time since last, it
// gains (e·p + frac)/q, capped at a full bucket.
func (n *numbers) refill(b bucket, now int64) bucket {
	e := max(0, now-b.last)
	b.last += e
	if e >= n.fill {
		return bucket{whole: n.full, last: b.last}
	}
	b.frac = min(b.frac, n.q-1)
	if n.short {
		return n.gain(b, e)
	}
	gained, rest := mulDiv(e, n.p, b.frac, n.q)
	b.whole, b.frac = b.whole+gained, rest
	if b.whole >= n.full {
		b.whole, b.frac = n.full, 0
	}
	return b
}

// gain is what refill does in e microseconds, fewer than fill, under a short
// limit.
func (n *numbers) gain(b bucket, e int64) bucket {
	x := uint64(e*n.p + b.frac)
	gained := n.byQ.quotient(x)
	b.whole, b.frac = b.whole+int64(gained), int64(x-gained*n.byQ.by)
	if b.whole >= n.full {
		b.whole, b.frac = n.full, 0
	}
	return b
}

// giveBack returns −cost units to the bucket, less what has refilled since
// they were taken, so that nothing is paid twice.
func (n *numbers) giveBack(b bucket, a *ask, write bool) bucket {
	if !write {
		return b
	}
	since := max(0, b.last-takenAt(a, b.last)) // a take yet to come is one of now
	gift := max(0, -a.cost*microUnits-mulDivUp(since, n.p, 0, n.q))
	b.whole += gift
	if b.whole >= n.full {
		b.whole, b.frac = n.full, 0
	}
	return b
}

// takenAt is when a give-back's units were taken: now unless said.
func takenAt(a *ask, now int64) int64 {
	if a.at == 0 {
		return now
	}
	return a.at
}

// wait is how long the bucket takes to gain need micro-units: ⌈(need·q −
// frac)/p⌉.
func (n *numbers) wait(need, frac int64) int64 {
	if n.short && need <= n.full {
		return n.shortWait(need, frac)
	}
	return mulDivUp(need, n.q, -frac, n.p)
}

// shortWait is wait for a short limit and at most a full bucket.
func (n *numbers) shortWait(need, frac int64) int64 {
	return int64(n.byP.quotient(uint64(need*n.q - frac + n.p - 1)))
}

func (n *numbers) tellBucket(d *Decision, r *result, cost, gap int64) {
	n.tellTokens(d, r.whole, r.frac, gap)
	if !r.allowed {
		n.tellRetry(d, r.whole, r.frac, cost, gap)
	}
}

func (n *numbers) tellTokens(d *Decision, whole, frac, gap int64) {
	d.Remaining = whole / microUnits
	if whole == n.full {
		return
	}
	missing, next := n.full-whole, (d.Remaining+1)*microUnits-whole
	if n.short { // twice as fast, on the path of every check
		d.ResetAfter = micros(gap + n.shortWait(missing, frac))
		d.NextAfter = micros(gap + n.shortWait(next, frac))
		return
	}
	d.ResetAfter = micros(gap + n.wait(missing, frac))
	d.NextAfter = micros(gap + n.wait(next, frac))
}

func (n *numbers) tellRetry(d *Decision, whole, frac, cost, gap int64) {
	d.RetryAfter = n.retryAfter(cost, gap+n.wait(cost*microUnits-whole, frac))
}

// The packed state: 53 bits of last, and 75 bits shared by whole and frac,
// of which frac takes n.fracBits, fewer than 64. The shifts say so too (&63),
// because the compiler would test for more each time.
const (
	timeBits = 53
	highBits = 64 - timeBits // of whole and frac, in the first word
)

func (n *numbers) pack(b bucket) cell {
	low := uint64(b.whole)<<(n.fracBits&63) | uint64(b.frac)
	high := uint64(b.whole) >> 1 >> (^n.fracBits & 63) // >> (64 - n.fracBits)
	return cell{uint64(b.last)<<highBits | high, low}
}

// packShort is pack for a short limit, whose whole and frac fit into the second
// word.
func (n *numbers) packShort(b bucket) cell {
	return cell{uint64(b.last) << highBits, uint64(b.whole)<<(n.fracBits&63) | uint64(b.frac)}
}

func (n *numbers) unpackShort(c cell) bucket {
	bits := n.fracBits & 63
	return bucket{whole: int64(c.Lo >> bits), frac: int64(c.Lo & (1<<bits - 1)), last: int64(c.Hi >> highBits)}
}

func (n *numbers) unpack(c cell) bucket {
	high := c.Hi & (1<<highBits - 1)
	return bucket{
		whole: int64(high<<1<<(^n.fracBits&63) | c.Lo>>(n.fracBits&63)),
		frac:  int64(c.Lo & (1<<(n.fracBits&63) - 1)),
		last:  int64(c.Hi >> highBits),
	}
}
