package stint

import "time"

// Token bucket and GCRA. Both are the same step.
//
// tokens(t) = min(C, tokens + r·(t − last)); a new key holds C; a request of
// cost q is allowed iff tokens ≥ q. See J. Turner, "New directions in
// communications (or which way to the information age?)", IEEE
// Communications Magazine 24(10), 1986. GCRA (ITU-T I.371, annex A) keeps the
// theoretical arrival time t + (C − tokens)/r instead. With C = burst and
// r = limit/window the two admit the same requests.
//
// Tokens are counted in whole micro-units and a fraction: tokens = whole +
// frac/q micro-units, where the rate is p/q micro-units a microsecond. Refilling
// is therefore integer arithmetic with a remainder, and nothing drifts.
//
// Two paths compute the same step. chargeBucket is the general one. takePlain is
// the fast path for nearly every check; for a limit with fitsWord it computes in
// single words, without 128-bit products.

// bucket is the state of a bucket, unpacked: whole micro-units, the fraction of
// one in 1/q, and the time of the last change in microseconds.
type bucket struct{ whole, frac, last int64 }

// takePlain is stepBucket for a plain claim on a state written under the same
// numbers. All values stay in registers. reportPlain makes a Decision of its
// results.
func (n *compiledLimit) takePlain(c packed, now, cost int64) (next packed, b bucket, allowed bool) {
	if !n.fitsWord {
		return n.takeLong(c, now, cost)
	}
	b = n.unpackShort(c)
	if e := now - b.last; e > 0 { // e is 0 for a busy key, checked several times a microsecond
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

// takeLong is takePlain for a limit without fitsWord.
func (n *compiledLimit) takeLong(c packed, now, cost int64) (next packed, b bucket, allowed bool) {
	b = n.refill(n.unpack(c), now)
	if b, allowed = b.charge(cost); !allowed || cost == 0 {
		return c, b, allowed
	}
	return n.pack(b), b, true
}

// charge takes a cost from the bucket if the bucket holds that much.
func (b bucket) charge(cost int64) (left bucket, allowed bool) {
	if allowed = cost*microUnits <= b.whole; allowed {
		b.whole -= cost * microUnits
	}
	return b, allowed
}

// reportPlain is decide for the results of takePlain.
func (n *compiledLimit) reportPlain(d *Decision, b bucket, now, cost int64, allowed bool) {
	d.Allowed, d.Limit, d.At = allowed, n.max, b.last
	if allowed && n.fitsWord && b.whole < n.full && b.last == now { // the common case, faster than the general code below
		units := uint64(b.whole) / microUnits
		d.Remaining = int64(units)
		d.ResetAfter = time.Duration(n.shortWait(n.full-b.whole, b.frac)) * time.Microsecond
		d.NextAfter = time.Duration(n.shortWait(int64((units+1)*microUnits)-b.whole, b.frac)) * time.Microsecond
		return
	}
	gap := b.last - now
	n.reportTokens(d, b.whole, b.frac, gap)
	if !allowed {
		n.reportRetry(d, b.whole, b.frac, cost, gap)
	}
}

// stepBucket is the step of a bucket or a leaky bucket.
func (n *compiledLimit) stepBucket(c packed, from *compiledLimit, a *input, r *result) packed {
	var b bucket
	if from != nil {
		b = from.unpack(c)
	}
	if b = n.stepUnpacked(b, from != nil, a, r); r.write {
		c = n.pack(b)
	}
	return c
}

// stepUnpacked is stepBucket on an unpacked state. known reports whether the key
// has a state.
func (n *compiledLimit) stepUnpacked(b bucket, known bool, a *input, r *result) bucket {
	if n.alg == LeakyBucket {
		return n.chargeLeaky(b, known, a, r)
	}
	return n.chargeBucket(b, known, a, r)
}

// chargeBucket is the step of a bucket on its tokens.
func (n *compiledLimit) chargeBucket(b bucket, known bool, a *input, r *result) bucket {
	if known {
		b = n.refill(b, a.now)
	} else {
		b = bucket{whole: n.full, last: a.now}
	}
	r.allowed, r.now = a.cost*microUnits <= b.whole, b.last
	switch {
	case a.cost < 0:
		r.write = known && !a.dry
		b = n.refund(b, a, r.write)
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

// refill advances the bucket to max(now, last). With e the time since last, it
// gains (e·p + frac)/q micro-units, up to a full bucket.
func (n *compiledLimit) refill(b bucket, now int64) bucket {
	e := max(0, now-b.last)
	b.last += e
	if e >= n.fill {
		return bucket{whole: n.full, last: b.last}
	}
	b.frac = min(b.frac, n.q-1)
	if n.fitsWord {
		return n.gain(b, e)
	}
	gained, rest := mulDiv(e, n.p, b.frac, n.q)
	b.whole, b.frac = b.whole+gained, rest
	if b.whole >= n.full {
		b.whole, b.frac = n.full, 0
	}
	return b
}

// gain refills the bucket for e microseconds, fewer than fill, under a limit
// with fitsWord.
func (n *compiledLimit) gain(b bucket, e int64) bucket {
	x := uint64(e*n.p + b.frac)
	gained := n.byQ.quotient(x)
	b.whole, b.frac = b.whole+int64(gained), int64(x-gained*n.byQ.by)
	if b.whole >= n.full {
		b.whole, b.frac = n.full, 0
	}
	return b
}

// refund returns −cost units to the bucket, less the amount that has refilled
// since they were taken, so that no unit comes back twice. A refund is bounded by the
// allowance: it never lifts the bucket above its capacity.
func (n *compiledLimit) refund(b bucket, a *input, write bool) bucket {
	if !write {
		return b
	}
	since := max(0, b.last-takenAt(a, b.last)) // a charge dated in the future counts as one of now
	gift := max(0, -a.cost*microUnits-mulDivUp(since, n.p, 0, n.q))
	b.whole += gift
	if b.whole >= n.full {
		b.whole, b.frac = n.full, 0
	}
	return b
}

func (n *compiledLimit) reportBucket(d *Decision, r *result, cost, gap int64) {
	n.reportTokens(d, r.whole, r.frac, gap)
	if !r.allowed {
		n.reportRetry(d, r.whole, r.frac, cost, gap)
	}
}

func (n *compiledLimit) reportTokens(d *Decision, whole, frac, gap int64) {
	d.Remaining = whole / microUnits
	if whole == n.full {
		return
	}
	missing, next := n.full-whole, (d.Remaining+1)*microUnits-whole
	if n.fitsWord { // a 64-bit division is twice as fast
		d.ResetAfter = micros(gap + n.shortWait(missing, frac))
		d.NextAfter = micros(gap + n.shortWait(next, frac))
		return
	}
	d.ResetAfter = micros(gap + n.wait(missing, frac))
	d.NextAfter = micros(gap + n.wait(next, frac))
}

func (n *compiledLimit) reportRetry(d *Decision, whole, frac, cost, gap int64) {
	d.RetryAfter = n.retryAfter(cost, gap+n.wait(cost*microUnits-whole, frac))
}

// wait returns how long the bucket takes to gain need micro-units:
// ⌈(need·q − frac)/p⌉ microseconds.
func (n *compiledLimit) wait(need, frac int64) int64 {
	if n.fitsWord && need <= n.full {
		return n.shortWait(need, frac)
	}
	return mulDivUp(need, n.q, -frac, n.p)
}

// shortWait is wait for a limit with fitsWord and a need of at most a full
// bucket.
func (n *compiledLimit) shortWait(need, frac int64) int64 {
	return int64(n.byP.quotient(uint64(need*n.q - frac + n.p - 1)))
}

// The packed state has 53 bits for last and 75 bits shared by whole and frac.
// frac takes n.fracBits of them, fewer than 64. The shifts mask their counts by
// &63, because the compiler would otherwise test each count for 64 or more.
const (
	timeBits = 53
	highBits = 64 - timeBits // bits of whole and frac in the first word
)

func (n *compiledLimit) unpackShort(c packed) bucket {
	bits := n.fracBits & 63
	return bucket{whole: int64(c.Lo >> bits), frac: int64(c.Lo & (1<<bits - 1)), last: int64(c.Hi >> highBits)}
}

// packShort is pack for a limit with fitsWord, whose whole and frac fit into the
// second word.
func (n *compiledLimit) packShort(b bucket) packed {
	return packed{uint64(b.last) << highBits, uint64(b.whole)<<(n.fracBits&63) | uint64(b.frac)}
}

func (n *compiledLimit) unpack(c packed) bucket {
	high := c.Hi & (1<<highBits - 1)
	return bucket{
		whole: int64(high<<1<<(^n.fracBits&63) | c.Lo>>(n.fracBits&63)),
		frac:  int64(c.Lo & (1<<(n.fracBits&63) - 1)),
		last:  int64(c.Hi >> highBits),
	}
}

func (n *compiledLimit) pack(b bucket) packed {
	low := uint64(b.whole)<<(n.fracBits&63) | uint64(b.frac)
	high := uint64(b.whole) >> 1 >> (^n.fracBits & 63) // >> (64 - n.fracBits)
	return packed{uint64(b.last)<<highBits | high, low}
}
