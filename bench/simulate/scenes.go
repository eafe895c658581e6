package simulate

import (
	"time"

	"github.com/stintdev/stint/resilience/adaptive"
	"github.com/stintdev/stint/resilience/retry"
)

// Seed is that of the numbers and pictures in the documentation.
const Seed = 1

// Scene is manners with a name.
type Scene struct {
	Name    string
	Manners Manners
}

// Scenes are the four ways to behave, each better than the one before.
func Scenes() []Scene {
	return []Scene{
		{"plain retries", Manners{Jitter: retry.None}},
		{"with jitter", Manners{Jitter: retry.Full}},
		{"jitter and budget", Manners{Jitter: retry.Full, Budget: true}},
		{"jitter, budget, breaker", Manners{Jitter: retry.Full, Budget: true, Breaker: true}},
	}
}

// Ear is what clients are told of when to come back, and whether they heed it.
type Ear struct {
	Name   string
	Hint   Hint
	Heeded bool
}

// Ears are the three ways to hear.
func Ears() []Ear {
	return []Ear{
		{"Retry-After is ignored", Fixed, false},
		{"Retry-After: 5, heeded", Fixed, true},
		{"Retry-After: one moment for all, heeded", Moment, true},
	}
}

// Heard is the scene's manners with that ear.
func (s Scene) Heard(e Ear) Manners {
	m := s.Manners
	m.Hint, m.Heeded = e.Hint, e.Heeded
	return m
}

// Shedding is a way to meet the overload.
type Shedding struct {
	Name string
	Play func(seed uint64) (*Overload, error)
}

// Guards are the ways of a server.
func Guards() []Shedding {
	return []Shedding{
		{"no limit", func(seed uint64) (*Overload, error) { return Guarded(seed, nil) }},
		{"AIMD", guarded(0, func(func() time.Duration, adaptive.Load) (adaptive.Algorithm, error) {
			return &adaptive.AIMD{Timeout: worth / 2}, nil
		})},
		{"gradient", guarded(0, func(func() time.Duration, adaptive.Load) (adaptive.Algorithm, error) {
			return &adaptive.Gradient{}, nil
		})},
		{"600, scaled by CPU", guarded(600, func(now func() time.Duration, busy adaptive.Load) (adaptive.Algorithm, error) {
			return adaptive.NewCPU(adaptive.CPUOptions{Full: 600, Load: busy, Clock: now})
		})},
	}
}

func guarded(initial int, algorithm func(func() time.Duration, adaptive.Load) (adaptive.Algorithm, error)) func(uint64) (*Overload, error) {
	return func(seed uint64) (*Overload, error) {
		return Guarded(seed, func(now func() time.Duration, busy adaptive.Load) (adaptive.Gate, error) {
			a, err := algorithm(now, busy)
			if err != nil {
				return nil, err
			}
			return adaptive.New(adaptive.Options{Algorithm: a, Initial: initial, Clock: now})
		})
	}
}

// Throttles are the ways of the clients of a server that refuses.
func Throttles() []Shedding {
	return []Shedding{
		{"clients send all", func(seed uint64) (*Overload, error) { return Throttled(seed, nil) }},
		{"throttled, K = 2", throttled(2)},
		{"throttled, K = 1.1", throttled(1.1)},
	}
}

// throttled looks back 10 s, so that a rush of 30 s shows what it does.
func throttled(k float64) func(uint64) (*Overload, error) {
	return func(seed uint64) (*Overload, error) {
		return Throttled(seed, func(now func() time.Duration, random func() float64) (adaptive.Gate, error) {
			return adaptive.NewThrottle(adaptive.ThrottleOptions{K: k, Window: 10 * time.Second, Clock: now, Random: random})
		})
	}
}
