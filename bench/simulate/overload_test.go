package simulate

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/stintdev/stint/resilience/adaptive"
)

// While a server receives three times the load that it can handle, a gate keeps its
// goodput near its capacity; without a gate the goodput is 0. Run with -v for the
// figures.
func TestGuards(t *testing.T) {
	for i, g := range Guards() {
		o := overload(t, g)
		t.Logf("seed %d, %s: %.0f of %d a second in time, %.0f of %d after it, p99 %v", Seed, g.Name, o.Goodput(), Capacity, o.After(), Usual, o.P99().Round(time.Millisecond))
		if i == 0 {
			if o.Goodput() > Capacity/10 || o.After() > Usual/10 {
				t.Error("without a limit it should drown, or limits prove nothing")
			}
			continue
		}
		if o.Goodput() < 0.9*Capacity || o.After() < 0.9*Usual {
			t.Errorf("%s: want 9 in 10 of what can be", g.Name)
		}
		if o.Limit[59] == 0 {
			t.Errorf("%s: no limit is noted", g.Name)
		}
	}
}

// Whatever its initial value, the limit converges to what the server can do. If it starts
// too high, the first seconds are lost; what it admits after those must be answered well
// within a second.
func TestLimitsAreFound(t *testing.T) {
	for _, c := range []struct {
		name string
		most int // of the limit
		new  func(func() time.Time, adaptive.Load) (adaptive.Algorithm, error)
	}{
		{"AIMD", 250, func(func() time.Time, adaptive.Load) (adaptive.Algorithm, error) {
			return &adaptive.AIMD{Timeout: worth / 2}, nil
		}},
		{"gradient", 200, func(func() time.Time, adaptive.Load) (adaptive.Algorithm, error) {
			return &adaptive.Gradient{}, nil
		}},
	} {
		for _, initial := range []int{1, 1000} {
			o := overload(t, Shedding{c.name, guarded(initial, c.new)})
			limits := slices.Sorted(slices.Values(o.Limit[20:45]))[2:] // a probe of the gradient may be seen in two
			t.Logf("seed %d, %s from %d: %.0f of %d a second in time, %.0f of %d after it, limits %d", Seed, c.name, initial, o.Goodput(), Capacity, o.After(), Usual, limits)
			if o.Goodput() < 0.9*Capacity || o.After() < 0.9*Usual || limits[0] < workers || limits[len(limits)-1] > c.most {
				t.Errorf("want 9 in 10 of what can be, by limits from %d to %d", workers, c.most)
			}
		}
	}
}

// Where a refusal costs a fifth of an answer, clients that send less get more answers:
// 400 = good + 0.2 · (sent − good), with sent = 1200, or K times good.
func TestThrottles(t *testing.T) {
	for i, want := range []float64{200, 333, 392} {
		s := Throttles()[i]
		o := overload(t, s)
		t.Logf("seed %d, %s: %.0f of %d a second, %.0f of %d after it", Seed, s.Name, o.Goodput(), Capacity, o.After(), Usual)
		if got := o.Goodput(); got < 0.95*want || got > 1.05*want {
			t.Errorf("%s: %.0f a second, want %.0f", s.Name, got, want)
		}
	}
}

func overload(t *testing.T, s Shedding) *Overload {
	t.Helper()
	o, err := s.Play(Seed)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func TestSameSeedSameOverload(t *testing.T) {
	g := Guards()[2]
	if a, b := overload(t, g), overload(t, g); !reflect.DeepEqual(a, b) {
		t.Error("two runs of one seed differ")
	}
}
