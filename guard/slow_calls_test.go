package guard

import (
	"testing"
	"time"

	"github.com/stintdev/stint/resilience/breaker"
)

func TestPercentileOfSlowCalls(t *testing.T) {
	for _, c := range []struct {
		name        string
		added       int // calls of 1 ms, 2 ms and so on
		share       float64
		calls, slow int
		want        int
	}{
		{"noCall", 0, 0.01, 0, 0, 0},
		{"slowestOfFewCalls", 3, 0.01, 60, 3, 3},
		{"slowestOfAHundred", 3, 0.01, 100, 3, 3},
		{"secondOfTwoHundred", 3, 0.01, 200, 3, 2},
		{"onlyCallsOfTheWindow", 10, 0.5, 4, 2, 9},
		{"medianOfAll", 9, 0.5, 9, 9, 5},
		{"lastOfALargeWindow", 1000, 0.01, 1000, 1000, 996}, // of the last 512, in proportion,
		{"fewerThanCounted", 1, 0.5, 10, 5, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			var s slowCalls
			for i := range c.added {
				s.add(time.Duration(i+1) * time.Millisecond)
			}
			if got := s.reached(c.share, breaker.Counts{Calls: c.calls, Slow: c.slow}); got != time.Duration(c.want)*time.Millisecond {
				t.Errorf("got %v, want %d ms", got, c.want)
			}
		})
	}
}

func TestTimesInALogLineAreInMilliseconds(t *testing.T) {
	for want, d := range map[string]time.Duration{
		"31 ms": 31 * time.Millisecond, "12.3 ms": 12_345 * time.Microsecond, "250 ms": 250 * time.Millisecond,
		"0.5 ms": 500 * time.Microsecond, "1000 ms": time.Second, "2500 ms": 2500 * time.Millisecond,
	} {
		if got := inMilliseconds(d); got != want {
			t.Errorf("%v is written %s, want %s", d, got, want)
		}
	}
}
