package redisstore

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/redistest"
)

// BenchmarkTake is checks of many keys, each its own, and of one key, by so
// many callers at once.
func BenchmarkTake(b *testing.B) {
	server := redistest.Server(b)
	store := open(b, Options{Addrs: []string{server.Addr()}})
	limit := benchmarkLimit(b)
	for _, callers := range []int{1, 16, 64, 256} {
		b.Run(fmt.Sprint("distinct/", callers), func(b *testing.B) { benchmarkTake(b, store, server, limit, callers, 100_000) })
		b.Run(fmt.Sprint("hot/", callers), func(b *testing.B) { benchmarkTake(b, store, server, limit, callers, 1) })
	}
}

func benchmarkTake(b *testing.B, store stint.Store, server *redistest.Process, limit stint.Limit, callers, keys int) {
	b.Helper()
	names := make([]string, keys)
	for i := range names {
		names[i] = fmt.Sprintf("user:%08d", i)
	}
	var caller atomic.Int64
	b.SetParallelism(max(1, callers/runtime.GOMAXPROCS(0)))
	before := scriptCalls(b, server)
	b.ReportAllocs()
	b.ResetTimer()
	if callers == 1 {
		for i := range b.N {
			take(b, store, limit, names[i%keys])
		}
	} else {
		b.RunParallel(func(pb *testing.PB) {
			for i := int(caller.Add(7919)); pb.Next(); i++ {
				take(b, store, limit, names[i*31%keys])
			}
		})
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "checks/s")
	b.ReportMetric(float64(b.N)/(scriptCalls(b, server)-before), "checks/call")
}

// scriptCalls is how many a server has answered.
func scriptCalls(b *testing.B, server *redistest.Process) (n float64) {
	b.Helper()
	stats, err := server.Info("cmdstat_evalsha")
	if err != nil {
		b.Fatal(err)
	}
	_, _ = fmt.Sscanf(stats, "calls=%f", &n) // none yet: 0
	return n
}

func take(b *testing.B, store stint.Store, limit stint.Limit, key string) {
	if _, err := store.Take(context.Background(), stint.Claim{Key: key, Limit: limit, Cost: 1}); err != nil {
		b.Error(err)
	}
}

func benchmarkLimit(b *testing.B) stint.Limit {
	b.Helper()
	limit, err := stint.Spec{Limit: 1_000_000_000, Window: time.Hour}.Compile()
	if err != nil {
		b.Fatal(err)
	}
	return limit
}
