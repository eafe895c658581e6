package lease_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/lease"
)

// BenchmarkTakeGroups measures a check in a batch of a thousand hot keys, and for comparison the
// memory store that grants the leases.
func BenchmarkTakeGroups(b *testing.B) {
	memory := stint.NewMemory(stint.MemoryOptions{})
	leased, err := lease.New(memory, lease.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer leased.Close()
	b.Run("leased", func(b *testing.B) { takeGroups(b, leased) })
	b.Run("memory", func(b *testing.B) { takeGroups(b, memory) })
}

func takeGroups(b *testing.B, s stint.Store) {
	b.Helper()
	limit, err := stint.Spec{Rule: "hot", Limit: 1_000_000_000, Window: 10 * time.Second}.Compile()
	if err != nil {
		b.Fatal(err)
	}
	const n = 1000
	groups, out := make([]stint.Group, n), make([]stint.Decision, n)
	for i := range groups {
		groups[i].Claims = []stint.Claim{{Key: fmt.Sprintf("user:%09d", i), Limit: limit, Cost: 1, Policy: stint.Policy{Consistency: stint.Leased}}}
	}
	b.ReportAllocs()
	for b.Loop() {
		if err := s.TakeGroups(b.Context(), groups, out); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/check")
}
