package redisstore

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/redistest"
)

// BenchmarkTake measures checks by many callers at once, of distinct keys and of one key.
// For comparison it calls the same script for one key at a time.
func BenchmarkTake(b *testing.B) {
	server := redistest.Server(b)
	store := open(b, Options{Addrs: []string{server.Addr()}})
	limit := benchmarkLimit(b)
	take := func(key string) error {
		_, err := store.Take(context.Background(), stint.Claim{Key: key, Limit: limit, Cost: 1})
		return err
	}
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{server.Addr()}, DisableCache: true})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(client.Close)
	alone := func(key string) error { return takeAlone(store, client, key, limit) }
	for _, callers := range []int{1, 16, 64, 256} {
		b.Run(fmt.Sprint("alone/", callers), func(b *testing.B) { benchmark(b, server, alone, callers, 100_000) })
		b.Run(fmt.Sprint("distinct/", callers), func(b *testing.B) { benchmark(b, server, take, callers, 100_000) })
		b.Run(fmt.Sprint("hot/", callers), func(b *testing.B) { benchmark(b, server, take, callers, 1) })
	}
}

// takeAlone sends one check in a call of its own.
func takeAlone(s *Store, client rueidis.Client, key string, limit stint.Limit) error {
	batch := s.encoding.newBatch()
	batch.add([]stint.Claim{{Key: key, Limit: limit, Cost: 1}}, 0)
	i := batch.invocation()
	return client.Do(context.Background(), evalsha(client.B(), &i)).Error()
}

func benchmark(b *testing.B, server *redistest.Process, check func(key string) error, callers, keys int) {
	b.Helper()
	names := make([]string, keys)
	for i := range names {
		names[i] = fmt.Sprintf("user:%08d", i)
	}
	if err := check(names[0]); err != nil { // connects
		b.Fatal(err)
	}
	before := scriptCalls(b, server)
	b.ReportAllocs()
	b.ResetTimer()
	var left atomic.Int64
	left.Store(int64(b.N))
	var wg sync.WaitGroup
	for caller := range callers {
		wg.Go(func() {
			for i := caller * 7919; left.Add(-1) >= 0; i++ {
				if err := check(names[i*31%keys]); err != nil {
					b.Error(err)
				}
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "checks/s")
	b.ReportMetric(float64(b.N)/(scriptCalls(b, server)-before), "checks/call")
}

// scriptCalls returns how many script calls a server has answered.
func scriptCalls(b *testing.B, server *redistest.Process) (n float64) {
	b.Helper()
	stats, err := server.Info("cmdstat_evalsha")
	if err != nil {
		b.Fatal(err)
	}
	_, _ = fmt.Sscanf(stats, "calls=%f", &n) // 0 before the first call
	return n
}

func benchmarkLimit(b *testing.B) stint.Limit {
	b.Helper()
	limit, err := stint.Spec{Limit: 1_000_000_000, Window: time.Hour}.Compile()
	if err != nil {
		b.Fatal(err)
	}
	return limit
}
