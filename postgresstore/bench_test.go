package postgresstore

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

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
