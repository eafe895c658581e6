package oracle

import (
	"math/big"
	"math/bits"
)

// fits reports whether p·q is below 2^52 and the parts fit into a state (see "Numbers" in
// docs/how-it-works.md).
func (l *limit) fits(rate *big.Rat) bool {
	product := new(big.Int).Mul(rate.Num(), rate.Denom())
	if product.BitLen() > 52 {
		return false
	}
	return bits.Len64(uint64(l.max)*1_000_000)+bits.Len64(rate.Denom().Uint64()-1) <= 75
}

// standsFor reports whether chosen is the greatest rate that fits below rate,
// which does not fit. Of all fractions between the two, the simplest has the
// least numerator and the least denominator. If it does not fit, no fraction
// between them fits.
func (l *limit) standsFor(chosen, rate *big.Rat) bool {
	return chosen.Cmp(rate) < 0 && l.fits(chosen) && !l.fits(simplestAbove(chosen, rate))
}

// simplestAbove returns the simplest fraction x with low < x ≤ high.
func simplestAbove(low, high *big.Rat) *big.Rat {
	whole := integer(low)
	if next := new(big.Rat).Add(whole, one()); next.Cmp(high) <= 0 {
		return next
	}
	var above *big.Rat // 1/(low − whole); nil: infinity
	if rest := new(big.Rat).Sub(low, whole); rest.Sign() > 0 {
		above = rest.Inv(rest)
	}
	from := new(big.Rat).Sub(high, whole)
	x := simplestFrom(from.Inv(from), above)
	return x.Add(x.Inv(x), whole)
}

// simplestFrom returns the simplest fraction x with low ≤ x < high.
func simplestFrom(low, high *big.Rat) *big.Rat {
	whole := integer(low)
	if whole.Cmp(low) == 0 {
		return whole
	}
	if next := new(big.Rat).Add(whole, one()); high == nil || next.Cmp(high) < 0 {
		return next
	}
	from, to := new(big.Rat).Sub(high, whole), new(big.Rat).Sub(low, whole)
	x := simplestAbove(from.Inv(from), to.Inv(to))
	return x.Add(x.Inv(x), whole)
}

func integer(x *big.Rat) *big.Rat {
	return new(big.Rat).SetInt(new(big.Int).Div(x.Num(), x.Denom()))
}

func one() *big.Rat { return big.NewRat(1, 1) }
