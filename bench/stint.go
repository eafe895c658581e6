package main

import (
	"context"
	"time"

	"github.com/stintdev/stint"
)

// bound is how many keys a store may hold: the default, and room for the
// part that brings as many.
const bound = stint.DefaultMaxKeys * 5 / 4

func newStint(limit int64, per time.Duration) (take, error) {
	return takeOf(stint.NewMemory(stint.MemoryOptions{MaxKeys: bound}), limit, per)
}

// newCounterStint reads the time from the processor's own counter, where that
// is safe.
func newCounterStint(limit int64, per time.Duration) (take, error) {
	return takeOf(stint.NewMemory(stint.MemoryOptions{MaxKeys: bound, ProcessorClock: true}), limit, per)
}

// takeOf calls a store as its users do: through the interface, with a limit
// compiled once.
func takeOf(s stint.Store, limit int64, per time.Duration) (take, error) {
	l, err := compile(limit, per)
	if err != nil {
		return nil, err
	}
	ctx := context.Background()
	return func(key string) bool {
		d, err := s.Take(ctx, stint.Claim{Key: key, Limit: l, Cost: 1})
		return err == nil && d.Allowed
	}, nil
}

// compile makes a token bucket with the scope that a rule would give it.
func compile(limit int64, per time.Duration) (stint.Limit, error) {
	return stint.Spec{Namespace: "bench", Rule: "race", Limit: limit, Window: per}.Compile()
}
