package stint_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stintdev/stint"
)

// BenchmarkTake checks one hot key through the Store interface, including the
// clock.
func BenchmarkTake(b *testing.B) {
	for name, o := range map[string]stint.MemoryOptions{
		"wall clock":      {},
		"processor clock": {ProcessorClock: true},
		"no clock":        {Clock: func() time.Time { return time.UnixMicro(1_700_000_000_000_000) }},
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

// BenchmarkTakeLog checks one full log whose units were all admitted at different
// times. Each check is admitted because the oldest unit has just left, or denied.
func BenchmarkTakeLog(b *testing.B) {
	for _, units := range []int64{10, 10_000} {
		for _, denied := range []bool{false, true} {
			b.Run(fmt.Sprintf("%d/denied=%v", units, denied), func(b *testing.B) {
				limit, err := stint.Spec{Algorithm: stint.SlidingWindowLog, Limit: units, Window: time.Second}.Compile()
				if err != nil {
					b.Fatal(err)
				}
				now, apart := int64(1_700_000_000_000_000), 1_000_000/units
				store := stint.NewMemory(stint.MemoryOptions{Clock: func() time.Time { return time.UnixMicro(now) }})
				claim := stint.Claim{Key: "0123456789abcdef01234567", Limit: limit, Cost: 1}
				for range units - 1 {
					_, _ = store.Take(b.Context(), claim)
					now += apart
				}
				if denied {
					apart = 0
					_, _ = store.Take(b.Context(), claim)
				}
				for b.Loop() {
					if _, err := store.Take(b.Context(), claim); err != nil {
						b.Fatal(err)
					}
					now += apart
				}
			})
		}
	}
}
