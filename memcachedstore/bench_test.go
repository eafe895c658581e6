package memcachedstore

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/memcachedtest"
)

// BenchmarkTake is a check of one of many keys, and of one hot key, with 64 callers.
func BenchmarkTake(b *testing.B) {
	for _, keys := range []int{1, 10_000} {
		b.Run(fmt.Sprint(keys), func(b *testing.B) {
			s, err := New(Options{Servers: []string{memcachedtest.Start(b).Addr()}, Timeout: 10 * time.Second})
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			limit := stint.MustParseLimit("1000000000/h")
			var n atomic.Int64
			b.SetParallelism(32)
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					c := stint.Claim{Key: fmt.Sprint("user:", n.Add(1)%int64(keys)), Limit: limit, Cost: 1}
					if _, err := s.Take(context.Background(), c); err != nil {
						b.Error(err)
					}
				}
			})
		})
	}
}
