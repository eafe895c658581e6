package remotetest

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stintdev/stint"
)

// BenchmarkTake takes one claim through a server in this process: from one caller, and
// from 64 callers at once, whose claims share round trips.
func BenchmarkTake(b *testing.B) {
	s := remote(b, nil)
	limit := mustLimit(b, "100000000/s")
	for _, callers := range []int{1, 64} {
		b.Run(fmt.Sprint("callers=", callers), func(b *testing.B) {
			b.ReportAllocs()
			var next atomic.Int64
			var wg sync.WaitGroup
			for i := range callers {
				key := fmt.Sprint("user:", i)
				wg.Go(func() {
					for next.Add(1) <= int64(b.N) {
						if _, err := s.Take(b.Context(), stint.Claim{Key: key, Limit: limit, Cost: 1}); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "checks/s")
		})
	}
}

// BenchmarkTakeGroups takes 100 claims in one call.
func BenchmarkTakeGroups(b *testing.B) {
	s := remote(b, nil)
	limit := mustLimit(b, "100000000/s")
	groups := make([]stint.Group, 100)
	for i := range groups {
		groups[i].Claims = []stint.Claim{{Key: fmt.Sprint("user:", i), Limit: limit, Cost: 1}}
	}
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for out := make([]stint.Decision, len(groups)); pb.Next(); {
			if err := s.TakeGroups(b.Context(), groups, out); err != nil {
				b.Error(err)
				return
			}
		}
	})
	b.ReportMetric(float64(b.N*len(groups))/b.Elapsed().Seconds(), "checks/s")
}
