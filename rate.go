package stint

import (
	"fmt"
	"math/big"
	"math/bits"
	"strings"
)

// rate returns the exact rate of a bucket in units a second, which is also
// micro-units a microsecond.
func (s *Spec) rate() (*big.Rat, error) {
	if s.RefillRate != "" {
		return s.statedRate()
	}
	if s.Algorithm == TokenBucket && s.Limit == 0 {
		return nil, &LimitError{Field: "refill_rate", Problem: "is missing", Mend: "give refill_rate, or limit and window"}
	}
	if err := s.checkLimitWindow(); err != nil {
		return nil, err
	}
	rate := new(big.Rat).SetFrac(
		new(big.Int).Mul(big.NewInt(s.Limit), big.NewInt(microUnits)),
		big.NewInt(s.Window.Microseconds()))
	return rate, checkRate("limit", rate)
}

func (s *Spec) statedRate() (*big.Rat, error) {
	if s.Limit != 0 {
		return nil, &LimitError{Field: "refill_rate", Problem: "repeats the rate that limit gives", Mend: "remove limit or refill_rate"}
	}
	if s.Window != 0 {
		if err := checkWindow("window", s.Window); err != nil {
			return nil, err
		}
	}
	rate, err := parseDecimal(s.RefillRate)
	if err != nil {
		return nil, err
	}
	return rate, checkRate("refill_rate", rate)
}

// parseDecimal reads decimal text exactly: 1.67 is 167/100.
func parseDecimal(text string) (*big.Rat, error) {
	wrong := &LimitError{Field: "refill_rate", Problem: fmt.Sprintf("%.40q is not a decimal number", text), Mend: "write units a second, such as 1.67"}
	mantissa, exponent, _ := strings.Cut(strings.ToLower(text), "e")
	if len(mantissa) > 40 || len(strings.TrimLeft(exponent, "+-")) > 2 || strings.Trim(mantissa, "-.0123456789") != "" {
		return nil, wrong
	}
	rate, ok := new(big.Rat).SetString(text)
	if !ok {
		return nil, wrong
	}
	return rate, nil
}

func checkRate(field string, rate *big.Rat) error {
	least := big.NewRat(1, minRateDays*24*60*60)
	if rate.Cmp(least) < 0 || rate.Cmp(big.NewRat(MaxRate, 1)) > 0 {
		about, _ := rate.Float64()
		return &LimitError{Field: field, Problem: fmt.Sprintf("makes a rate of %.6g units a second, which is out of range", about),
			Mend: "use a rate from one in 400 days to 100000000 a second"}
	}
	return nil
}

// defaultCapacity returns limit, or max(1, ⌈2·rate⌉) if there is only a rate.
func defaultCapacity(limit int64, rate *big.Rat) int64 {
	if limit != 0 {
		return limit
	}
	twice := new(big.Rat).Mul(rate, big.NewRat(2, 1))
	ceil := new(big.Int).Add(twice.Num(), new(big.Int).Sub(twice.Denom(), big.NewInt(1)))
	return max(1, ceil.Quo(ceil, twice.Denom()).Int64())
}

// rateFits reports whether steps with this capacity and rate stay exact. p·q
// must be below 2^52, and the whole and the fraction must fit into a state of 16
// bytes beside 53 bits of time.
func rateFits(full int64, p, q *big.Int) bool {
	if new(big.Int).Mul(p, q).BitLen() > 52 {
		return false
	}
	return bits.Len64(uint64(full))+bits.Len64(q.Uint64()-1) <= 75
}

// fitRate returns the greatest fraction at most r for which fits holds, or 0.
// fits must be monotone: false for p, q is false for all greater ones.
//
// It descends the Stern–Brocot tree (Graham, Knuth, Patashnik, Concrete
// Mathematics, §4.5). Take neighbours of the tree, low ≤ r < high. Every fraction
// between them has a numerator and a denominator at least as great as those of
// their mediant. When the mediant does not fit, nothing between them fits, and
// low is the answer.
func fitRate(r *big.Rat, fits func(p, q *big.Int) bool) *big.Rat {
	if fits(r.Num(), r.Denom()) {
		return r
	}
	low, high := fraction{big.NewInt(0), big.NewInt(1)}, fraction{big.NewInt(1), big.NewInt(0)}
	for {
		below, above := low.excess(r), high.excess(r) // ≥ 0, > 0
		// low moves toward high while it stays at most r.
		k := new(big.Int).Quo(below, above)
		k = greatestFit(k, func(k *big.Int) bool { return low.plus(k, high).fit(fits) })
		if k.Sign() > 0 {
			low = low.plus(k, high)
		}
		if below = low.excess(r); below.Sign() == 0 || !low.plus(big.NewInt(1), high).fit(fits) {
			return new(big.Rat).SetFrac(low.p, low.q)
		}
		// high moves toward low while it stays above r.
		k = new(big.Int).Quo(new(big.Int).Sub(above, big.NewInt(1)), below)
		if k.Sign() > 0 {
			high = high.plus(k, low)
		}
	}
}

type fraction struct{ p, q *big.Int }

// excess returns the distance of the fraction from r, cross-multiplied:
// |r·q − p|, times the denominator of r.
func (f fraction) excess(r *big.Rat) *big.Int {
	d := new(big.Int).Mul(r.Num(), f.q)
	return d.Abs(d.Sub(d, new(big.Int).Mul(f.p, r.Denom())))
}

// plus returns the fraction k steps toward g: (p + k·g.p) / (q + k·g.q).
func (f fraction) plus(k *big.Int, g fraction) fraction {
	p, q := new(big.Int).Mul(k, g.p), new(big.Int).Mul(k, g.q)
	return fraction{p.Add(p, f.p), q.Add(q, f.q)}
}

func (f fraction) fit(fits func(p, q *big.Int) bool) bool { return fits(f.p, f.q) }

// greatestFit returns the greatest k from 0 to most for which ok holds; ok is
// monotone and holds for 0.
func greatestFit(most *big.Int, ok func(k *big.Int) bool) *big.Int {
	low, high := big.NewInt(0), new(big.Int).Add(most, big.NewInt(1)) // ok(low), not yet known at high
	for new(big.Int).Sub(high, low).Cmp(big.NewInt(1)) > 0 {
		mid := new(big.Int).Add(low, high)
		mid.Rsh(mid, 1)
		if ok(mid) {
			low = mid
		} else {
			high = mid
		}
	}
	return low
}
