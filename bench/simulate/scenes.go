package simulate

import (
	"time"

	"github.com/stintdev/stint/resilience/adaptive"
	"github.com/stintdev/stint/resilience/retry"
)

// Seed is the seed of the numbers and pictures in the documentation.
const Seed = 1

// Scene is a named way to retry.
type Scene struct {
	Name     string
	Behavior Behavior
}

// Scenes returns four ways to retry, each better than the one before.
func Scenes() []Scene {
	return []Scene{
		{"plain retries", Behavior{Jitter: retry.None}},
		{"with jitter", Behavior{Jitter: retry.Full}},
		{"jitter and budget", Behavior{Jitter: retry.Full, Budget: true}},
		{"jitter, budget, breaker", Behavior{Jitter: retry.Full, Budget: true, Breaker: true}},
	}
}

// Advice says which Retry-After clients receive, and whether they respect it.
type Advice struct {
	Name       string
	RetryAfter RetryAfter
	Respected  bool
}

// Advices returns three cases.
func Advices() []Advice {
	return []Advice{
		{"Retry-After is ignored", Fixed, false},
		{"Retry-After: 5, respected", Fixed, true},
		{"Retry-After: one moment for all, respected", Moment, true},
	}
}

// With returns the behavior of the scene with an advice.
func (s Scene) With(e Advice) Behavior {
	m := s.Behavior
	m.RetryAfter, m.Respected = e.RetryAfter, e.Respected
	return m
}

// Shedding is a named way to handle the overload.
type Shedding struct {
	Name string
	Play func(seed uint64) (*Overload, error)
}

// Guards returns ways to shed load in the server.
func Guards() []Shedding {
	return []Shedding{
		{"no limit", func(seed uint64) (*Overload, error) { return Guarded(seed, nil) }},
		{"AIMD", guarded(0, func(func() time.Time, adaptive.Load) (adaptive.Algorithm, error) {
			return &adaptive.AIMD{Timeout: worth / 2}, nil
		})},
		{"gradient", guarded(0, func(func() time.Time, adaptive.Load) (adaptive.Algorithm, error) {
			return &adaptive.Gradient{}, nil
		})},
		{"600, scaled by CPU", guarded(600, func(now func() time.Time, busy adaptive.Load) (adaptive.Algorithm, error) {
			return adaptive.NewCPU(adaptive.CPUOptions{Full: 600, Load: busy, Clock: now})
		})},
	}
}

func guarded(initial int, algorithm func(func() time.Time, adaptive.Load) (adaptive.Algorithm, error)) func(uint64) (*Overload, error) {
	return func(seed uint64) (*Overload, error) {
		return Guarded(seed, func(now func() time.Time, busy adaptive.Load) (adaptive.Gate, error) {
			a, err := algorithm(now, busy)
			if err != nil {
				return nil, err
			}
			return adaptive.New(adaptive.Options{Algorithm: a, Initial: initial, Clock: now})
		})
	}
}

// Throttles returns ways to shed load in the clients of a server that refuses.
func Throttles() []Shedding {
	return []Shedding{
		{"clients send all", func(seed uint64) (*Overload, error) { return Throttled(seed, nil) }},
		{"throttled, K = 2", throttled(2)},
		{"throttled, K = 1.1", throttled(1.1)},
	}
}

// throttled counts over 10 s, so that it has an effect within a rush of 30 s.
func throttled(k float64) func(uint64) (*Overload, error) {
	return func(seed uint64) (*Overload, error) {
		return Throttled(seed, func(now func() time.Time, random func() float64) (adaptive.Gate, error) {
			return adaptive.NewThrottle(adaptive.ThrottleOptions{K: k, Window: 10 * time.Second, Clock: now, Random: random})
		})
	}
}
