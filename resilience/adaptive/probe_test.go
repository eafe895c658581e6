package adaptive

import (
	"testing"
	"time"
)

// queueAt returns the mean latency of a server that serves a fixed number of calls at
// once, under a limit that is always reached.
func queueAt(limit float64, atOnce int, service time.Duration) Window {
	inFlight := int(limit)
	latency := service * time.Duration(max(inFlight, atOnce)) / time.Duration(atOnce)
	return Window{Calls: 20, Latency: latency, InFlight: inFlight}
}

// under returns the limits of a number of windows of an overload.
func under(g *Gradient, limit float64, windows, atOnce int, service time.Duration) (limits []float64) {
	for range windows {
		limit = max(1, g.Next(limit, queueAt(limit, atOnce, service)))
		limits = append(limits, limit)
	}
	return limits
}

func TestProbeFindsTheLatencyWithoutAQueue(t *testing.T) {
	const service = 50 * time.Millisecond
	for _, atOnce := range []int{1, 3, 20, 400} {
		for _, from := range []float64{1, 20, 1000} {
			g := &Gradient{}
			limits := under(g, from, 600, atOnce, service)
			got := time.Duration(g.baseline)
			if got < service || got > service*3/2 {
				t.Errorf("%d at once, from %v: the baseline is %v, want about %v", atOnce, from, got, service)
			}
			for _, limit := range limits[300:] {
				if limit > float64(3*atOnce+10) {
					t.Errorf("%d at once, from %v: a limit of %v", atOnce, from, limit)
					break
				}
			}
		}
	}
}

// If responses take longer for a reason other than load, that is not a queue: the limit
// recovers, although the gate was always full.
func TestProbeLearnsThatAnswersTakeLonger(t *testing.T) {
	g := &Gradient{}
	limits := under(g, 100, 150, 100, 50*time.Millisecond)
	limits = under(g, limits[149], 250, 100, 500*time.Millisecond)
	if got := time.Duration(g.baseline); got < 500*time.Millisecond || got > 750*time.Millisecond {
		t.Errorf("the baseline is %v, want about 500ms", got)
	}
	if limit := limits[249]; limit < 75 {
		t.Errorf("the limit is %v, want about 100", limit)
	}
}

func TestProbeEndsWithoutAResult(t *testing.T) {
	full := func(limit float64) Window { return queueAt(limit, 1000, 50*time.Millisecond) }
	for name, w := range map[string]Window{
		"when the load has gone":      {Calls: 10, Latency: 50 * time.Millisecond, InFlight: 3},
		"when the server refuses all": {Calls: 10, Failures: 10, InFlight: 100},
	} {
		g := &Gradient{}
		for range 7 { // the first limit has settled and is measured, the second begins
			g.Next(100, full(100))
		}
		if !g.probe.running {
			t.Fatal("no probe")
		}
		limit := 50.0
		for range 30 {
			if limit = g.Next(limit, w); !g.probe.running {
				break
			}
		}
		if g.probe.running || limit != 100 {
			t.Errorf("%s: limit %v, probe %+v, want the limit from before", name, limit, g.probe)
		}
	}
}

// A gate that is not full sheds nothing, and no probe makes it shed.
func TestNoProbeWithoutNeed(t *testing.T) {
	g := &Gradient{}
	limit := 20.0
	for range 10_000 {
		next := g.Next(limit, Window{Calls: 20, Latency: 50 * time.Millisecond, InFlight: int(limit) - 1})
		if g.probe.running || next < limit {
			t.Fatalf("from %v to %v, %+v", limit, next, g.probe)
		}
		limit = min(next, 100)
	}
}
