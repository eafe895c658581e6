package simulate

import (
	"reflect"
	"testing"
	"time"
)

// While three times as much is asked of a server as it can answer, a gate has
// it answer nearly as much as it can in time; without one, nothing. Run with
// -v for the figures.
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

// Where refusing costs a fifth of answering, clients that send less get more:
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
