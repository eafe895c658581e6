package stint_test

import (
	"context"
	"testing"

	"github.com/stintdev/stint"
)

// BenchmarkTake is a check of one hot key through the interface, clock
// included.
func BenchmarkTake(b *testing.B) {
	for name, o := range map[string]stint.MemoryOptions{
		"wall clock":      {},
		"processor clock": {ProcessorClock: true},
		"no clock":        {Clock: func() int64 { return 1_700_000_000_000_000 }},
	} {
		b.Run(name, func(b *testing.B) {
			limit, err := stint.Spec{Limit: 1_000_000_000, Window: 34_560_000_000, Rule: "bench"}.Compile()
			if err != nil {
				b.Fatal(err)
			}
			var store stint.Store = stint.NewMemory(o)
			ctx := context.Background()
			for b.Loop() {
				if _, err := store.Take(ctx, stint.Claim{Key: "0123456789abcdef01234567", Limit: limit, Cost: 1}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
