package stint_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stintdev/stint"
)

// BenchmarkAllow checks one hot key through limiters with several numbers of
// limits.
func BenchmarkAllow(b *testing.B) {
	var limits []stint.Limit
	for i := range 3 {
		limit, err := stint.Spec{Limit: 1_000_000_000, Window: 34_560_000_000, Name: fmt.Sprint(i)}.Compile()
		if err != nil {
			b.Fatal(err)
		}
		limits = append(limits, limit)
		limiter, err := stint.NewLimiter(stint.NewMemory(stint.MemoryOptions{}), "bench", limits...)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(fmt.Sprint(len(limits)), func(b *testing.B) {
			ctx := context.Background()
			for b.Loop() {
				if d, err := limiter.Allow(ctx, "0123456789abcdef01234567"); err != nil || !d.Allowed {
					b.Fatal(d, err)
				}
			}
		})
	}
}
