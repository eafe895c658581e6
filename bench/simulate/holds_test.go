package simulate

import (
	"slices"
	"testing"
	"time"

	"github.com/stintdev/stint/resilience/adaptive"
)

// step is the load on a server from a time on, as a share of its initial capacity.
type step struct {
	from time.Duration
	load float64
	slow float64 // how many times the usual service an answer takes; 0 is 1
}

// phase is a range of seconds and what is expected in it.
type phase struct {
	from, to int
	slow     float64 // as of the step
}

// The default is not configured with a latency, so it must find the baseline itself: with
// a server that is overloaded from its first second on for minutes, as well as with one
// that is overloaded for a short time. The server answers in time nearly as many requests
// as it can, the limit is near the number that it can serve at once, and nothing is shed
// after the overload.
func TestDefaultHoldsUnderOverload(t *testing.T) {
	t.Parallel()
	sizes := []int{4, 20, 50}
	if testing.Short() {
		sizes = sizes[1:2]
	}
	for _, c := range []struct {
		name       string
		steps      []step
		end        time.Duration
		overloaded []phase
		light      []phase
	}{
		{"a cold start", []step{{load: 3}}, 2 * time.Minute, []phase{{from: 10, to: 60}, {from: 60, to: 120}}, nil},
		{"a cold start just over capacity", []step{{load: 1.3}}, 2 * time.Minute, []phase{{from: 20, to: 60}, {from: 60, to: 120}}, nil},
		{"a cold start under a flood", []step{{load: 10}}, 30 * time.Second, []phase{{from: 10, to: 30}}, nil},
		{"overload after long light load", []step{{load: 0.3}, {from: 2 * time.Minute, load: 3}}, 3 * time.Minute, []phase{{from: 130, to: 180}}, []phase{{from: 30, to: 120}}},
		{
			"steps and recovery",
			[]step{{load: 0.5}, {from: 20 * time.Second, load: 1.5}, {from: 50 * time.Second, load: 6}, {from: 80 * time.Second, load: 0.5}, {from: 110 * time.Second, load: 3}, {from: 140 * time.Second, load: 0.5}},
			170 * time.Second,
			[]phase{{from: 30, to: 50}, {from: 60, to: 80}, {from: 120, to: 140}},
			[]phase{{from: 10, to: 20}, {from: 85, to: 110}, {from: 145, to: 170}},
		},
		{"answers that take thrice as long", []step{{load: 3}, {from: time.Minute, load: 3, slow: 3}}, 2 * time.Minute, []phase{{from: 10, to: 60}, {from: 85, to: 120, slow: 3}}, nil},
		{"recovery from a cold start", []step{{load: 3}, {from: time.Minute, load: 0.5}}, 90 * time.Second, []phase{{from: 10, to: 60}}, []phase{{from: 65, to: 90}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for _, workers := range sizes {
				for _, initial := range []int{0, 10 * workers} {
					h := holding{t, workers, played(t, workers, initial, c.end, c.steps)}
					for _, p := range c.overloaded {
						h.overloaded(p)
					}
					for _, p := range c.light {
						h.light(p)
					}
				}
			}
		})
	}
}

func played(t *testing.T, workers, initial int, end time.Duration, steps []step) *Overload {
	t.Helper()
	at := func(now time.Duration) (s step) {
		for _, next := range steps {
			if next.from <= now {
				s = next
			}
		}
		return s
	}
	s := scenario{
		workers: workers,
		rate:    func(now time.Duration) float64 { return at(now).load * float64(workers) / service.Seconds() },
		service: func(now time.Duration) time.Duration { return time.Duration(max(1, at(now).slow) * float64(service)) },
		end:     end,
	}
	o, err := s.guarded(Seed, func(now func() time.Time, _ adaptive.Load) (adaptive.Gate, error) {
		return adaptive.New(adaptive.Options{Initial: initial, Clock: now})
	})
	if err != nil {
		t.Fatal(err)
	}
	return o
}

type holding struct {
	*testing.T

	workers int
	seen    *Overload
}

func (h holding) overloaded(p phase) {
	h.Helper()
	took := time.Duration(max(1, p.slow) * float64(service))
	goodput := mean(h.seen.Good[p.from:p.to]) / float64(h.workers) * took.Seconds()
	limits := h.seen.Limit[p.from:p.to]
	limit, highest := mean(limits)/float64(h.workers), float64(slices.Max(limits))/float64(h.workers)
	slowest := p99(h.seen.latencies[p.from:p.to])
	h.Logf("%d workers, seconds %d to %d: goodput %.2f of capacity, limit %.1f workers, %.1f at most, p99 %v", h.workers, p.from, p.to, goodput, limit, highest, slowest)
	if goodput < 0.8 || limit < 0.7 || limit > 4 || highest > 6 || slowest > 10*took {
		h.Errorf("want 0.8 of capacity, a limit near the workers and latency near that of the service")
	}
}

func (h holding) light(p phase) {
	h.Helper()
	served := mean(h.seen.Good[p.from:p.to]) / mean(h.seen.Asked[p.from:p.to])
	h.Logf("%d workers, seconds %d to %d: %.3f served", h.workers, p.from, p.to, served)
	if served < 0.97 {
		h.Errorf("want all")
	}
}
