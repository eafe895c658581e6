package oracle

import "math/big"

// leaky is a leaky bucket. Its level falls, v(t) = max(0, v − r·(t − last)). A
// charge is served when the level before it has fallen to zero.
type leaky struct {
	l *limit
	s *parts
}

func (b leaky) newest() int64 {
	if b.s == nil {
		return 0
	}
	return b.s.last
}

func (b leaky) level(t int64) *big.Int {
	if b.s == nil {
		return new(big.Int)
	}
	x := b.s.over(b.l.q)
	x.Sub(x, b.l.flow(t-b.s.last))
	if x.Sign() < 0 {
		return new(big.Int)
	}
	return x
}

// space returns queue + 1 − v. It is below zero after the queue was shortened.
func (b leaky) space(t int64) *big.Int {
	x := b.l.units(b.l.max)
	return x.Sub(x, b.level(t))
}

func (b leaky) admits(t, cost int64) bool { return b.space(t).Cmp(b.l.units(cost)) >= 0 }

func (b leaky) remaining(t int64) int64 {
	space := b.space(t)
	if space.Sign() < 0 {
		return 0
	}
	return space.Div(space, b.l.units(1)).Int64()
}

func (b leaky) fresh(t int64) bool { return b.level(t).Sign() == 0 }

func (b leaky) charge(t, cost int64) any {
	x := b.level(t)
	return partsOf(x.Add(x, b.l.units(cost)), b.l.q, t)
}

// refund changes nothing: the place in the queue has been handed out.
func (b leaky) refund(int64, int64, int64) any { return nil }

func (b leaky) delay(int64) func(int64) bool { return b.fresh }
