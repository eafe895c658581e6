package main

import (
	"context"

	"github.com/stintdev/stint"
)

// bound is the maximum number of keys in a store. It is a quarter above the default, because one
// part of the benchmark holds that many keys.
const bound = stint.DefaultMaxKeys * 5 / 4

func newStint(a allowance) (take, error) {
	return takeOf(stint.NewMemory(stint.MemoryOptions{MaxKeys: bound}), a)
}

// newCounterStint returns a store that reads the time from the processor's own counter
// where that is safe.
func newCounterStint(a allowance) (take, error) {
	return takeOf(stint.NewMemory(stint.MemoryOptions{MaxKeys: bound, ProcessorClock: true}), a)
}

// takeOf calls a store as its users do: through the interface, with a limit that is
// compiled once.
func takeOf(s stint.Store, a allowance) (take, error) {
	l, err := compile(a)
	if err != nil {
		return nil, err
	}
	ctx := context.Background()
	return func(key string) bool {
		d, err := s.Take(ctx, stint.Claim{Key: key, Limit: l, Cost: 1})
		return err == nil && d.Allowed
	}, nil
}

// compile returns a token bucket with the scope of a rule.
func compile(a allowance) (stint.Limit, error) {
	return stint.Spec{Namespace: "bench", Rule: "race", Limit: 1, Window: a.every, Capacity: a.burst}.Compile()
}
