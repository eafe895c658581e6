package stint

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// edgesOf draws a number from 0 to most, often one near either end.
func edgesOf(most int64) *rapid.Generator[int64] {
	end := max(0, min(2, most))
	return rapid.OneOf(rapid.Int64Range(0, most), rapid.Int64Range(0, end), rapid.Int64Range(most-end, most))
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
func drawState(t *rapid.T, n *compiledLimit) bucket {
	b := bucket{whole: edgesOf(n.full).Draw(t, "whole"), last: edgesOf(1<<52).Draw(t, "last")}
	if units := rapid.Bool().Draw(t, "near whole units"); units {
		b.whole = min(n.full, max(0, b.whole/microUnits*microUnits+rapid.Int64Range(-1, 1).Draw(t, "off")))
	}
	if b.whole < n.full {
		b.frac = edgesOf(n.q-1).Draw(t, "frac")
	}
	return b
}

// The fast path of nearly every check decides, stores and reports the same as
// the general step.
func TestPlainTakeIsTheStep(t *testing.T) {
	all := buckets()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.SampledFrom(all[rapid.Bool().Draw(t, "short")]).Draw(t, "limit")
		b := drawState(t, n)
		off := rapid.OneOf(
			rapid.Int64Range(-3, 3), edgesOf(n.fill+2), rapid.Int64Range(-1<<40, 1<<40), // across last, until it is full
			rapid.Just(math.MaxInt64/n.p+1), // time until the refill overflows a word
			rapid.Custom(func(t *rapid.T) int64 { // time until some unit has refilled
				need := max(0, min(n.max, b.whole/microUnits+edgesOf(n.max).Draw(t, "units"))*microUnits-b.whole)
				return n.wait(need, b.frac) + rapid.Int64Range(-1, 1).Draw(t, "beside")
			}),
		).Draw(t, "since")
		a := input{now: min(maxMicros, max(0, b.last+off)), cost: rapid.OneOf(edgesOf(n.max+1), rapid.Just(b.whole/microUnits), rapid.Just(b.whole/microUnits+1)).Draw(t, "cost")}

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
