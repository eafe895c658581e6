package oracle

import "math/big"

// parts is the state of a bucket: whole micro-units, the numerator of the
// fraction, and the time of the last write. The denominator of the fraction is
// that of the rate at the last write.
type parts struct {
	whole, fraction *big.Int
	last            int64
}

// over returns the parts as a number of 1/q micro-units. It reads the fraction
// as min(f, q − 1).
func (s *parts) over(q *big.Int) *big.Int {
	f := s.fraction
	if f.Cmp(q) >= 0 {
		f = new(big.Int).Sub(q, big.NewInt(1))
	}
	x := new(big.Int).Mul(s.whole, q)
	return x.Add(x, f)
}

func partsOf(x, q *big.Int, t int64) *parts {
	whole, fraction := new(big.Int).DivMod(x, q, new(big.Int))
	return &parts{whole, fraction, t}
}

// units returns n units as 1/q micro-units.
func (l *limit) units(n int64) *big.Int {
	x := new(big.Int).Mul(big.NewInt(n), big.NewInt(1_000_000))
	return x.Mul(x, l.q)
}

// flow returns what e microseconds refill, as 1/q micro-units.
func (l *limit) flow(e int64) *big.Int { return new(big.Int).Mul(big.NewInt(e), l.p) }

// bucket is a token bucket or GCRA: tokens(t) = min(C, tokens + r·(t − last)).
type bucket struct {
	l *limit
	s *parts
}

func (b bucket) newest() int64 {
	if b.s == nil {
		return 0
	}
	return b.s.last
}

func (b bucket) full() *big.Int { return b.l.units(b.l.max) }

func (b bucket) tokens(t int64) *big.Int {
	if b.s == nil {
		return b.full()
	}
	x := b.s.over(b.l.q)
	return b.capped(x.Add(x, b.l.flow(t-b.s.last)))
}

func (b bucket) capped(x *big.Int) *big.Int {
	if full := b.full(); x.Cmp(full) > 0 {
		return full
	}
	return x
}

func (b bucket) admits(t, cost int64) bool { return b.tokens(t).Cmp(b.l.units(cost)) >= 0 }

func (b bucket) remaining(t int64) int64 {
	return new(big.Int).Div(b.tokens(t), b.l.units(1)).Int64()
}

func (b bucket) fresh(t int64) bool { return b.tokens(t).Cmp(b.full()) == 0 }

func (b bucket) charge(t, cost int64) any {
	x := b.tokens(t)
	return partsOf(x.Sub(x, b.l.units(cost)), b.l.q, t)
}

// refund returns max(0, q·10^6 − ⌈r·(t − at)⌉) micro-units to the bucket.
func (b bucket) refund(t, cost, at int64) any {
	refilled := b.l.flow(max(0, t-at)) // a charge dated in the future counts as one of now
	refilled.Add(refilled, b.l.q).Sub(refilled, big.NewInt(1)).Div(refilled, b.l.q)
	given := new(big.Int).Mul(big.NewInt(cost), big.NewInt(1_000_000))
	given.Sub(given, refilled)
	x := b.tokens(t)
	if given.Sign() > 0 {
		x = b.capped(x.Add(x, given.Mul(given, b.l.q)))
	}
	return partsOf(x, b.l.q, t)
}

func (bucket) delay(int64) func(int64) bool { return nil }
