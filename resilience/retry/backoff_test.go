package retry

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

const draws = 40_000

// chance returns a new source of random numbers; a failure shows its seed.
func chance(t *testing.T) *rand.Rand {
	t.Helper()
	a, b := rand.Uint64(), rand.Uint64()
	t.Logf("seed: rand.NewPCG(%d, %d)", a, b)
	return rand.New(rand.NewPCG(a, b))
}

// uniform checks many draws for the properties of independent draws uniform between 0 and 1:
// their range, their mean, their distribution (Kolmogorov and Smirnov), and that no draw
// predicts the next. Correct draws miss each bound less than once in ten thousand million runs.
func uniform(t *testing.T, draws []float64) {
	t.Helper()
	n := float64(len(draws))
	if low, high := slices.Min(draws), slices.Max(draws); low < 0 || high > 1 || low > 25/n || high < 1-25/n {
		t.Errorf("from %v to %v, want all of 0 to 1", low, high)
	}
	mean := average(draws)
	if off := math.Abs(mean-0.5) * math.Sqrt(12*n); off > 6.5 {
		t.Errorf("mean %v is %.1f deviations from 1/2", mean, off)
	}
	if r := correlation(draws); math.Abs(r) > 6.5/math.Sqrt(n) {
		t.Errorf("a draw predicts the next: correlation %v", r)
	}
	if d := distance(draws); d > 3.5/math.Sqrt(n) {
		t.Errorf("distance %v from uniform", d)
	}
}

func average(x []float64) (mean float64) {
	for _, v := range x {
		mean += v / float64(len(x))
	}
	return mean
}

// correlation returns the correlation of each draw with the next.
func correlation(x []float64) float64 {
	mean, with, own := average(x), 0.0, 0.0
	for i, v := range x {
		own += (v - mean) * (v - mean)
		if i > 0 {
			with += (v - mean) * (x[i-1] - mean)
		}
	}
	return with / own
}

// distance returns the greatest difference between a number and the share of draws up to
// it.
func distance(x []float64) (d float64) {
	x = slices.Sorted(slices.Values(x))
	for i, v := range x {
		d = max(d, math.Abs(v-float64(i)/float64(len(x))), math.Abs(v-float64(i+1)/float64(len(x))))
	}
	return d
}

// steps are the exponential steps of a base of 100 ms and a cap of 1 s.
var (
	steps   = []time.Duration{100 * time.Millisecond, 200 * time.Millisecond, 400 * time.Millisecond, 800 * time.Millisecond, time.Second, time.Second}
	backoff = Backoff{Base: 100 * time.Millisecond, Cap: time.Second}
)

func TestJitterNoneIsTheStep(t *testing.T) {
	b := backoff
	b.Jitter = None
	for n, step := range steps {
		if got := b.Wait(n, time.Hour, nil); got != step {
			t.Errorf("retry %d: %v, want %v", n, got, step)
		}
	}
	if got := b.Wait(1<<30, 0, nil); got != b.Cap {
		t.Errorf("retry of a great number: %v", got)
	}
	if got := (Backoff{Cap: time.Hour, Jitter: None}).Wait(1<<30, 0, nil); got != 0 {
		t.Errorf("without a base: %v", got)
	}
}

func TestFullIsUniformToTheStep(t *testing.T) {
	b, random := backoff, chance(t)
	for n, step := range steps {
		x := make([]float64, draws)
		for i := range x {
			x[i] = float64(b.Wait(n, 0, random.Int64N)) / float64(step)
		}
		uniform(t, x)
	}
}

func TestEqualIsUniformFromHalfTheStep(t *testing.T) {
	b, random := backoff, chance(t)
	b.Jitter = Equal
	for n, step := range steps {
		x := make([]float64, draws)
		for i := range x {
			x[i] = float64(b.Wait(n, 0, random.Int64N)-step/2) / float64(step/2)
		}
		uniform(t, x)
	}
}

// Each wait is uniform between base and three times the last wait, whatever the waits
// before that were.
func TestDecorrelatedIsUniformToThreeTimesTheLast(t *testing.T) {
	random := chance(t)
	b := Backoff{Base: 100 * time.Millisecond, Cap: math.MaxInt64, Jitter: Decorrelated}
	var x []float64
	for len(x) < draws {
		last := time.Duration(0)
		for n := range 8 { // the waits grow without bound
			wait := b.Wait(n, last, random.Int64N)
			x = append(x, float64(wait-b.Base)/float64(3*max(last, b.Base)-b.Base))
			last = wait
		}
	}
	uniform(t, x)
}

func TestDecorrelatedIsCapped(t *testing.T) {
	random := chance(t)
	b := backoff
	b.Jitter = Decorrelated
	const last = 500 * time.Millisecond // to 1.5 s: 500 of 1400 ms are over the cap
	capped, below := 0, []float64(nil)
	for n := range draws {
		if wait := b.Wait(n, last, random.Int64N); wait == b.Cap {
			capped++
		} else {
			below = append(below, float64(wait-b.Base)/float64(b.Cap-b.Base))
		}
	}
	p := 500.0 / 1400
	if off := math.Abs(float64(capped)-p*draws) / math.Sqrt(draws*p*(1-p)); off > 6.5 {
		t.Errorf("%d of %d at the cap, %.1f deviations from what they should be", capped, draws, off)
	}
	uniform(t, below)
}

// With any numbers, a wait is never below 0 or above the cap.
func TestWaitsOfExtremesStayWithinTheCap(t *testing.T) {
	random := chance(t)
	for _, j := range []Jitter{Full, Equal, Decorrelated, None} {
		for _, base := range []time.Duration{math.MinInt64, -1, 0, 1, 2, 3, math.MaxInt64 / 2, math.MaxInt64} {
			for _, top := range []time.Duration{math.MinInt64, 0, 1, base, math.MaxInt64} {
				for _, last := range []time.Duration{math.MinInt64, 0, top, math.MaxInt64} {
					for _, n := range []int{math.MinInt, -1, 0, 1, 61, 62, 63, 64, math.MaxInt} {
						b := Backoff{Base: base, Cap: top, Jitter: j}
						if got := b.Wait(n, last, random.Int64N); got < 0 || got > max(0, top) {
							t.Errorf("%v of %v to %v after %v, retry %d: %v", j, base, top, last, n, got)
						}
					}
				}
			}
		}
	}
}

func TestJittersHaveNames(t *testing.T) {
	for want, j := range map[string]Jitter{"full": Full, "equal": Equal, "decorrelated": Decorrelated, "none": None, "unknown": 9} {
		if got := j.String(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
