package postgresstore

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/cas"
	"github.com/stintdev/stint/internal/pgtest"
)

// BenchmarkBatch reads and writes batches of items from two goroutines, as a busy store
// does. One operation is one item.
func BenchmarkBatch(b *testing.B) {
	s := pgtest.Start(b)
	o, err := ParseURL(withPassword(s.URL()))
	if err != nil {
		b.Fatal(err)
	}
	if err := o.setDefaults(); err != nil {
		b.Fatal(err)
	}
	store, err := newBackend(&o)
	if err != nil {
		b.Fatal(err)
	}
	defer store.close()
	for _, size := range []int{1, 8, 64} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			var id atomic.Int64
			b.SetParallelism(1)
			b.RunParallel(func(pb *testing.PB) {
				n, first := 0, id.Add(1)
				for more := true; more; {
					loads, swaps := make([]cas.Load, size), make([]cas.Swap, size)
					for i := range loads {
						if more = pb.Next(); !more {
							break
						}
						n++
						loads[i].Key = fmt.Sprintf("key%d:%06d", first, n%20_000)
					}
					if !more {
						return
					}
					ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
					if _, err := store.Load(ctx, loads); err != nil {
						b.Error(err)
					}
					for i := range loads {
						swaps[i] = swapOf(loads[i].Key, loads[i].Item.Version, "a state of an item that has one limit, with a hash and a nonce: 100 bytes or so in all.............")
					}
					if _, err := store.Swap(ctx, swaps); err != nil {
						b.Error(err)
					}
					cancel()
				}
			})
		})
	}
}

// BenchmarkTake makes checks from 64 goroutines, on keys of their own and on one key.
func BenchmarkTake(b *testing.B) {
	s := pgtest.Start(b)
	o, err := ParseURL(withPassword(s.URL()))
	if err != nil {
		b.Fatal(err)
	}
	counts := &countingObserver{}
	o.Timeout, o.Observer = 10*time.Second, counts
	store, err := New(o)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	limit := stint.MustParseLimit("50000000/h")
	for _, hot := range []bool{false, true} {
		b.Run(map[bool]string{false: "distinct", true: "hot"}[hot], func(b *testing.B) {
			var id atomic.Int64
			b.SetParallelism(64 / runtime.GOMAXPROCS(0))
			counts.calls.Store(0)
			counts.claims.Store(0)
			before := store.Stats()
			b.RunParallel(func(pb *testing.PB) {
				caller := id.Add(1)
				for n := 0; pb.Next(); n++ {
					key := "hot"
					if !hot {
						key = fmt.Sprintf("user:%d:%d", caller, n%500)
					}
					if _, err := store.Take(context.Background(), stint.Claim{Key: key, Limit: limit, Cost: 1}); err != nil {
						b.Error(err)
					}
				}
			})
			b.ReportMetric(float64(counts.claims.Load())/float64(max(counts.calls.Load(), 1)), "items/call")
			b.ReportMetric(float64(counts.calls.Load())/float64(b.N), "calls/check")
			after := store.Stats()
			b.ReportMetric(float64(after.Remembered-before.Remembered)/float64(max(1, after.Swaps-before.Swaps)), "remembered/swap")
			b.ReportMetric(float64(after.Early-before.Early)/float64(max(1, after.Swaps-before.Swaps)), "early/swap")
		})
	}
}

// countingObserver counts calls to the server and the items in them.
type countingObserver struct{ calls, claims atomic.Int64 }

func (o *countingObserver) Start(ctx context.Context, _ stint.Event) context.Context { return ctx }

func (o *countingObserver) Observe(_ context.Context, e stint.Event) {
	o.calls.Add(1)
	o.claims.Add(int64(e.Claims))
}
