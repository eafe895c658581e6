package lease_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/lease"
)

// BenchmarkTake measures a check of a leased hot key, and for comparison the memory store that
// grants the leases.
func BenchmarkTake(b *testing.B) {
	memory := stint.NewMemory(stint.MemoryOptions{})
	for _, keys := range []int{1, 10_000} {
		b.Run(fmt.Sprintf("leased/%d keys", keys), func(b *testing.B) {
			leased, err := lease.New(memory, lease.Options{})
			if err != nil {
				b.Fatal(err)
			}
			defer leased.Close()
			take(b, leased, keys)
			s := leased.Stats()
			b.ReportMetric(100*float64(s.Asked)/float64(s.Asked+s.Local), "%asked")
		})
		b.Run(fmt.Sprintf("memory/%d keys", keys), func(b *testing.B) { take(b, memory, keys) })
	}
}

func take(b *testing.B, s stint.Store, keys int) {
	b.Helper()
	limit, err := stint.Spec{Rule: "hot", Limit: 1_000_000_000, Window: 10 * time.Second}.Compile()
	if err != nil {
		b.Fatal(err)
	}
	names := make([]string, keys)
	for i := range names {
		names[i] = fmt.Sprintf("user:%09d", i)
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		c := stint.Claim{Key: names[i%keys], Limit: limit, Cost: 1, Policy: stint.Policy{Consistency: stint.Leased}}
		if d, err := s.Take(b.Context(), c); err != nil || !d.Allowed {
			b.Fatal(d, err)
		}
	}
}
