package guard_test

import (
	"context"
	"testing"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/guard"
	"github.com/stintdev/stint/storekit"
)

// perShard is a memory store that says it is one of several.
type perShard struct{ stint.Store }

func (perShard) Shards() storekit.Shards { return oneShard{} }

// oneShard names every shard "a".
type oneShard struct{}

func (oneShard) Of(*stint.Claim) string              { return "a" }
func (oneShard) Probe(context.Context, string) error { return nil }
func (oneShard) Stop(string)                         {}
func (oneShard) Start(string)                        {}

// BenchmarkTake is a check in a memory store: alone, guarded, guarded as one
// of several shards, guarded while its circuit is open, and under a policy that
// learns from each answer.
func BenchmarkTake(b *testing.B) {
	memory := stint.NewMemory(stint.MemoryOptions{ProcessorClock: true})
	broken := &faulty{Store: memory}
	alone := mustNew(b, broken, guard.Options{})
	opened(b, alone, broken, fails(errUnavailable), "user:1")
	for _, c := range []struct {
		name  string
		store stint.Store
	}{
		{"memory", memory},
		{"guarded", mustNew(b, memory, guard.Options{})},
		{"guardedShard", mustNew(b, perShard{memory}, guard.Options{})},
		{"leftAlone", alone},
	} {
		b.Run(c.name, func(b *testing.B) { benchmarkTake(b, c.store, stint.FailOpen) })
	}
	b.Run("lastKnown", func(b *testing.B) {
		benchmarkTake(b, mustNew(b, memory, guard.Options{Nodes: 3}), stint.FailLastKnown)
	})
}

func benchmarkTake(b *testing.B, store stint.Store, onFailure stint.OnFailure) {
	claim := stint.Claim{Key: "user:42", Limit: mustLimit(b, "100000000/s"), Cost: 1, Policy: stint.Policy{OnFailure: onFailure}}
	ctx := b.Context()
	b.ReportAllocs()
	for b.Loop() {
		if d, err := store.Take(ctx, claim); err != nil || !d.Allowed {
			b.Fatal(d, err)
		}
	}
}

// BenchmarkTakeGroups measures a request under three limits.
func BenchmarkTakeGroups(b *testing.B) {
	memory := stint.NewMemory(stint.MemoryOptions{ProcessorClock: true})
	for _, c := range []struct {
		name  string
		store stint.Store
	}{
		{"memory", memory},
		{"guarded", mustNew(b, memory, guard.Options{})},
		{"guardedShard", mustNew(b, perShard{memory}, guard.Options{})},
	} {
		b.Run(c.name, func(b *testing.B) { benchmarkGroups(b, c.store) })
	}
}

func benchmarkGroups(b *testing.B, store stint.Store) {
	limit := mustLimit(b, "100000000/s")
	groups := []stint.Group{{Claims: []stint.Claim{
		{Key: "user:42", Limit: limit, Cost: 1}, {Key: "ip:10.0.0.1", Limit: limit, Cost: 1}, {Key: "all", Limit: limit, Cost: 1},
	}}}
	out, ctx := make([]stint.Decision, 3), b.Context()
	b.ReportAllocs()
	for b.Loop() {
		if err := store.TakeGroups(ctx, groups, out); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkStandardDeadline is what the guard's own context saves.
func BenchmarkStandardDeadline(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		_, cancel := context.WithTimeout(b.Context(), 50*time.Millisecond)
		cancel()
	}
}
