// Package property tests properties on many random cases. Each case has a seed of its
// own. A failing case logs its seed and what it drew; STINT_SEED=<seed> runs that case
// alone.
//
// The module at the top uses it in its tests, because a library for this would be in
// the module graph of every user.
package property

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
)

// The number of cases of a property.
const (
	cases      = 100
	casesShort = 20 // with -short
)

// T is one case: a test with a source of random values.
type T struct {
	testing.TB

	rng   *rand.Rand
	drawn []any // a label and a value in turn
}

// Check runs a property on many cases, until one fails.
func Check(t *testing.T, property func(t *T)) {
	t.Helper()
	if seed, err := strconv.ParseUint(os.Getenv("STINT_SEED"), 10, 64); err == nil {
		run(t, seed, property)
		return
	}
	n := cases
	if testing.Short() {
		n = casesShort
	}
	for ; n > 0 && !t.Failed(); n-- {
		run(t, rand.Uint64(), property)
	}
}

func run(tb testing.TB, seed uint64, property func(t *T)) {
	tb.Helper()
	t := &T{TB: tb, rng: rand.New(rand.NewPCG(seed, 0))}
	ended := false
	defer func() { // also after Fatal and after a panic
		if tb.Helper(); tb.Failed() || !ended {
			tb.Logf("STINT_SEED=%d repeats this case, which drew%s", seed, t.text())
		}
	}()
	property(t)
	ended = true
}

func (t *T) text() string {
	var b strings.Builder
	for i := 0; i < len(t.drawn); i += 2 {
		fmt.Fprintf(&b, "\n    %v: %v", t.drawn[i], t.drawn[i+1])
	}
	return b.String()
}

// Int64 draws a number from low to high, both included. Most bugs are near an end of a
// range or at a magnitude far below its width, so a uniform number is drawn only in
// three cases of eight.
func (t *T) Int64(label string, low, high int64) int64 {
	span := uint64(high) - uint64(low)
	var v int64
	switch kind := t.rng.IntN(8); kind {
	case 0:
		v = low
	case 1:
		v = high
	case 2, 3, 4:
		v = int64(uint64(low) + t.below(span))
	case 5:
		v = int64(uint64(high) - t.magnitude(span))
	default:
		v = int64(uint64(low) + t.magnitude(span))
	}
	t.drawn = append(t.drawn, label, v)
	return v
}

// below draws a uniform number from 0 to most.
func (t *T) below(most uint64) uint64 {
	if most+1 == 0 {
		return t.rng.Uint64()
	}
	return t.rng.Uint64N(most + 1)
}

// magnitude draws a number from 0 to most whose number of bits is uniform.
func (t *T) magnitude(most uint64) uint64 {
	n := t.rng.IntN(bits.Len64(most) + 1)
	return min(most, t.rng.Uint64()&(1<<n-1))
}

// Int is Int64 for an int.
func (t *T) Int(label string, low, high int) int { return int(t.Int64(label, int64(low), int64(high))) }

// Bool draws true in half of the cases.
func (t *T) Bool(label string) bool {
	v := t.rng.IntN(2) == 0
	t.drawn = append(t.drawn, label, v)
	return v
}

// Pick draws one of several values, each equally often.
func Pick[V any](t *T, label string, values ...V) V {
	v := values[t.rng.IntN(len(values))]
	t.drawn = append(t.drawn, label, v)
	return v
}

// PickFrom draws one of the values of functions, of which it calls one. Each is equally
// likely.
func PickFrom[V any](t *T, values ...func() V) V { return values[t.rng.IntN(len(values))]() }
