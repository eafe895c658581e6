package oracle

import (
	"math/big"
	"testing"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/property"
)

// The hand-computed tables of package storetest check the definitions
// themselves.

const start = 1_767_225_600_000_000

func fixedWindow(t *testing.T, limit int64) stint.Limit {
	t.Helper()
	l, err := stint.Spec{Name: "w", Algorithm: stint.FixedWindow, Limit: limit, Window: 10 * time.Second}.Compile()
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestLeastFindsTheFirstYes(t *testing.T) {
	property.Check(t, func(t *property.T) {
		first := t.Int64("first", 0, 1<<60)
		if got := least(func(d int64) bool { return d >= first }); got != first {
			t.Errorf("%d, want %d", got, first)
		}
	})
	if got := least(func(int64) bool { return false }); got != 1<<60 {
		t.Errorf("of never: %d", got)
	}
}

// No simpler fraction lies between the bounds. The test tries every denominator.
func TestSimplestAboveIsTheSimplest(t *testing.T) {
	property.Check(t, func(t *property.T) {
		low := big.NewRat(t.Int64("low", 0, 500), t.Int64("over", 1, 90))
		high := new(big.Rat).Add(low, big.NewRat(t.Int64("more", 1, 50), t.Int64("over", 1, 900)))
		got := simplestAbove(low, high)
		if got.Cmp(low) <= 0 || got.Cmp(high) > 0 {
			t.Fatalf("%v is not above %v and at most %v", got, low, high)
		}
		for q := int64(1); q < got.Denom().Int64(); q++ {
			over := new(big.Rat).SetInt64(q)
			p := integer(new(big.Rat).Mul(high, over)) // the greatest at most high
			if p.Quo(p, over).Cmp(low) > 0 {
				t.Fatalf("%v is above %v and at most %v, and simpler than %v", p, low, high, got)
			}
		}
	})
}

// A count of 10 s ago may be forgotten; then time may run back for its key.
func TestFollowExplainsForgetting(t *testing.T) {
	c := stint.Claim{Key: "k", Limit: fixedWindow(t, 3), Cost: 3}
	group := []stint.Group{{Claims: []stint.Claim{c}}}
	used := func() *Model {
		m := New()
		m.Take(start, c)
		c := c
		c.Key = "another"
		m.Follow(start+10_000_000, []stint.Group{{Claims: []stint.Claim{c}}}, []stint.Decision{New().Take(start+10_000_000, c)})
		return m
	}
	back := int64(start + 5_000_000)
	kept, forgot := used().Take(back, c), New().Take(back, c)
	if kept.Allowed || !forgot.Allowed {
		t.Fatalf("the answers do not differ: %+v, %+v", kept, forgot)
	}
	for name, answer := range map[string]stint.Decision{"kept": kept, "forgot": forgot} {
		if _, ok := used().Follow(back, group, []stint.Decision{answer}); !ok {
			t.Errorf("a store that %s it is not explained", name)
		}
	}
	often := []stint.Group{group[0], group[0], group[0]} // of one call; forgotten before the last
	if _, ok := used().Follow(back, often, []stint.Decision{kept, kept, forgot}); !ok {
		t.Error("a store that forgets it late is not explained")
	}
	wrong := forgot
	wrong.Remaining++
	if want, ok := used().Follow(back, group, []stint.Decision{wrong}); ok || want[0] != kept {
		t.Errorf("a wrong answer: explained %v, want %+v", ok, want)
	}
}

// A count of this window may not be forgotten.
func TestFollowRefusesForgettingTooSoon(t *testing.T) {
	c := stint.Claim{Key: "k", Limit: fixedWindow(t, 3), Cost: 3}
	m := New()
	m.Take(start, c)
	group := []stint.Group{{Claims: []stint.Claim{c}}}
	if _, ok := m.Follow(start+9_999_999, group, []stint.Decision{New().Take(start+9_999_999, c)}); ok {
		t.Error("forgotten a microsecond before the window's end, and explained")
	}
}

func TestForgetIdleForgetsNoneTooSoon(t *testing.T) {
	m := New()
	m.Take(start, stint.Claim{Key: "k", Limit: fixedWindow(t, 3), Cost: 1})
	m.ForgetIdle(start + 9_999_999)
	if len(m.keys) != 1 {
		t.Error("forgotten before its window's end")
	}
	m.ForgetIdle(start + 10_000_000)
	if len(m.keys) != 0 {
		t.Error("kept although idle, after ForgetIdle")
	}
}

// Every period contains its own start, and begins where the previous one ends.
func TestPeriodsAreSeamless(t *testing.T) {
	property.Check(t, func(t *property.T) {
		c := newCalendar(stint.Spec{
			Period:    property.Pick(t, "period", "day", "week", "month", "30d", "7h"),
			Anchor:    property.Pick(t, "anchor", "2024-02-29T12:34:56Z", "2026-01-31T00:00:00+14:00", "2023-12-30T23:59:59-11:30"),
			UTCOffset: property.Pick(t, "offset", "", "Z", "+05:45", "-03:30"),
		})
		at := t.Int64("at", 0, 1<<52)
		begin := c.start(at)
		end := begin + least(func(d int64) bool { return c.start(begin+d) > begin })
		if begin > at || at >= end || c.start(begin) != begin || c.start(end) != end || c.start(end-1) != begin {
			t.Errorf("%v: %d lies in %d to %d", c, at, begin, end)
		}
		length := time.Duration(end-begin) * time.Microsecond
		if c.period == "month" && (length < 28*24*time.Hour || length > 31*24*time.Hour) {
			t.Errorf("a month of %v", length)
		}
		if c.length > 0 && length.Microseconds() != c.length {
			t.Errorf("%s is %v", c.period, length)
		}
	})
}
