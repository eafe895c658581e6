package stint

import (
	"math"
	"testing"

	"github.com/stintdev/stint/internal/property"
)

// edgesOf draws a number from 0 to most, often one near either end.
func edgesOf(t *property.T, label string, most int64) int64 {
	end := max(0, min(2, most))
	return property.PickFrom(t,
		func() int64 { return t.Int64(label, 0, most) },
		func() int64 { return t.Int64(label, 0, end) },
		func() int64 { return t.Int64(label, most-end, most) })
}

// buckets returns limits of many rates and sizes, some with fitsWord and some
// that need two-word arithmetic.
func buckets() map[bool][]*compiledLimit {
	isShort := map[bool][]*compiledLimit{}
	for _, rate := range []string{"1", "1.67", "100000000", "999983", "0.05000003", "0.20000001", "0.0000012347", "1234.5679", "0.00123457", "33.333333"} {
		for _, capacity := range []int64{1, 2, 10, 1000, 99_991, 1_000_000_000} {
			l, err := Spec{RefillRate: rate, Capacity: capacity}.Compile()
			if err != nil {
				continue // this bucket takes too long to fill
			}
			isShort[l.n.fitsWord] = append(isShort[l.n.fitsWord], l.n)
		}
	}
	return isShort
}

// drawState draws a state that a step can leave: a full bucket has no fraction.
func drawState(t *property.T, n *compiledLimit) bucket {
	b := bucket{whole: edgesOf(t, "whole", n.full), last: edgesOf(t, "last", 1<<52)}
	if units := t.Bool("near whole units"); units {
		b.whole = min(n.full, max(0, b.whole/microUnits*microUnits+t.Int64("off", -1, 1)))
	}
	if b.whole < n.full {
		b.frac = edgesOf(t, "frac", n.q-1)
	}
	return b
}

// The fast path of nearly every check decides, stores and reports the same as
// the general step.
func TestPlainTakeIsTheStep(t *testing.T) {
	all := buckets()
	property.Check(t, func(t *property.T) {
		n := property.Pick(t, "limit", all[t.Bool("short")]...)
		b := drawState(t, n)
		off := property.PickFrom(t,
			func() int64 { return t.Int64("across last", -3, 3) },
			func() int64 { return edgesOf(t, "until it is full", n.fill+2) },
			func() int64 { return t.Int64("any time", -1<<40, 1<<40) },
			func() int64 { return math.MaxInt64/n.p + 1 }, // time until the refill overflows a word
			func() int64 { // time until some unit has refilled
				need := max(0, min(n.max, b.whole/microUnits+edgesOf(t, "units", n.max))*microUnits-b.whole)
				return n.wait(need, b.frac) + t.Int64("beside", -1, 1)
			})
		a := input{now: min(maxMicros, max(0, b.last+off)), cost: property.PickFrom(t,
			func() int64 { return edgesOf(t, "cost", n.max+1) },
			func() int64 { return b.whole / microUnits },
			func() int64 { return b.whole/microUnits + 1 })}

		var r result
		var want, got Decision
		state := n.pack(b)
		wantState := n.step(state, n, &a, &r)
		n.decide(&want, &r, &a)
		if !r.write {
			wantState = state
		}
		gotState, after, allowed := n.takePlain(state, a.now, a.cost)
		n.reportPlain(&got, after, a.now, a.cost, allowed)
		if got != want || gotState != wantState {
			t.Fatalf("%v, %+v, asked %+v:\n%+v, %x\nwant\n%+v, %x", n.spec, b, a, got, gotState, want, wantState)
		}
	})
}
