package oracle

import (
	"maps"
	"math/big"
)

// counts is the state of a sliding window counter: the count of each bucket, by
// the number of the bucket since the epoch, and the newest bucket written.
type counts struct {
	of  map[int64]int64
	top int64
}

// counter is a sliding window counter of S buckets of width w = W/S.
type counter struct {
	l *limit
	s *counts
}

func (c counter) width() int64 { return c.l.window / c.l.buckets }

func (c counter) bucketOf(t int64) int64 { return floor(t, c.width()) }

func (c counter) newest() int64 {
	if c.s == nil {
		return 0
	}
	return c.s.top * c.width()
}

// estimate returns Σ count[c−S+1 … c] + count[c−S]·(1 − (t − c·w)/w), in 1/w
// units.
func (c counter) estimate(t int64) *big.Int {
	sum, w := new(big.Int), c.width()
	if c.s == nil {
		return sum
	}
	now := c.bucketOf(t)
	for b, n := range c.s.of {
		weight := int64(0)
		switch {
		case b > now-c.l.buckets:
			weight = w
		case b == now-c.l.buckets:
			weight = w - (t - now*w)
		}
		sum.Add(sum, new(big.Int).Mul(big.NewInt(n), big.NewInt(weight)))
	}
	return sum
}

// space returns N − estimate, in 1/w units. It is below zero after N was lowered.
func (c counter) space(t int64) *big.Int {
	x := new(big.Int).Mul(big.NewInt(c.l.max), big.NewInt(c.width()))
	return x.Sub(x, c.estimate(t))
}

func (c counter) admits(t, cost int64) bool {
	return c.space(t).Cmp(new(big.Int).Mul(big.NewInt(cost), big.NewInt(c.width()))) >= 0
}

func (c counter) remaining(t int64) int64 {
	space := c.space(t)
	if space.Sign() < 0 {
		return 0
	}
	return space.Div(space, big.NewInt(c.width())).Int64()
}

func (c counter) fresh(t int64) bool { return c.estimate(t).Sign() == 0 }

func (c counter) charge(t, cost int64) any {
	after := &counts{map[int64]int64{}, c.bucketOf(t)}
	if c.s != nil {
		after.of = maps.Clone(c.s.of)
	}
	maps.DeleteFunc(after.of, func(b, _ int64) bool { return b < after.top-c.l.buckets }) // no weight from now on
	after.of[after.top] += cost
	return after
}

// refund subtracts from the bucket of at while that has weight.
func (c counter) refund(t, cost, at int64) any {
	b := c.bucketOf(at)
	if b < c.bucketOf(t)-c.l.buckets || b > c.bucketOf(t) || c.s.of[b] == 0 {
		return nil
	}
	after := &counts{maps.Clone(c.s.of), c.s.top}
	after.of[b] = max(0, after.of[b]-cost)
	return after
}

func (counter) delay(int64) func(int64) bool { return nil }
