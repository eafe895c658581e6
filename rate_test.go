package stint

import (
	"math/big"
	"testing"

	"github.com/stintdev/stint/internal/property"
)

func TestDecimalTextIsExact(t *testing.T) {
	for text, want := range map[string]string{
		"1.67": "167/100", "2": "2", "0.5": "1/2", ".25": "1/4", "1e3": "1000", "16.67": "1667/100",
		"0.000001": "1/1000000",
	} {
		rate, err := parseDecimal(text)
		if err != nil || rate.RatString() != want {
			t.Errorf("parseDecimal(%q) = %v, %v; want %s", text, rate, err, want)
		}
	}
	for _, text := range []string{"", "NaN", "inf", "0x10", "1/3", "1_000", "1e999999999", "1,5", "१", "1e", "--1", "1.2.3"} {
		if rate, err := parseDecimal(text); err == nil {
			t.Errorf("parseDecimal(%q) = %v; want an error", text, rate)
		}
	}
}

// fitByScan is the definition: the greatest fraction p/q at most r that fits.
func fitByScan(r *big.Rat, fits func(p, q *big.Int) bool, most int64) *big.Rat {
	best := new(big.Rat)
	for q := int64(1); q <= most; q++ {
		p := new(big.Int).Mul(r.Num(), big.NewInt(q))
		p.Quo(p, r.Denom())
		for p.Sign() > 0 && !fits(p, big.NewInt(q)) {
			p.Sub(p, big.NewInt(1))
		}
		if f := new(big.Rat).SetFrac(p, big.NewInt(q)); f.Cmp(best) > 0 {
			best = f
		}
	}
	return best
}

func TestFittedRateIsTheGreatestThatFits(t *testing.T) {
	property.Check(t, func(t *property.T) {
		bound := t.Int64("bound", 1, 120)
		fits := func(p, q *big.Int) bool { return new(big.Int).Mul(p, q).Cmp(big.NewInt(bound)) <= 0 }
		r := big.NewRat(t.Int64("p", 1, 5000), t.Int64("q", 1, 5000))
		if got, want := fitRate(r, fits), fitByScan(r, fits, bound); got.Cmp(want) != 0 {
			t.Fatalf("fitRate(%v, p·q ≤ %d) = %v; want %v", r, bound, got, want)
		}
	})
}

func TestEveryAcceptedRateFitsTheState(t *testing.T) {
	property.Check(t, func(t *property.T) {
		s := Spec{
			Limit:    t.Int64("limit", 1, MaxLimit),
			Window:   drawWindow(t),
			Capacity: t.Int64("capacity", 1, MaxLimit),
		}
		l, err := s.Compile()
		if err != nil {
			return
		}
		n := l.n
		if !rateFits(n.full, big.NewInt(n.p), big.NewInt(n.q)) {
			t.Fatalf("%d/%d does not fit a capacity of %d", n.p, n.q, s.Capacity)
		}
		b := bucket{whole: n.full, frac: n.q - 1, last: 1<<timeBits - 1}
		if got := n.unpack(n.pack(b)); got != b {
			t.Fatalf("unpack(pack(%v)) = %v", b, got)
		}
		exact := new(big.Rat).SetFrac(big.NewInt(s.Limit*microUnits), big.NewInt(s.Window.Microseconds()))
		if got := l.Rate(); got.Cmp(exact) > 0 || l.Rounded() != (got.Cmp(exact) != 0) {
			t.Fatalf("rate %v of exactly %v, rounded %v", got, exact, l.Rounded())
		}
	})
}
