package bulkhead

import (
	"context"
	"testing"
)

// BenchmarkAcquire measures taking and releasing a place while some are free.
func BenchmarkAcquire(b *testing.B) {
	bulkhead := mustNew(b, Options{Limit: 100})
	b.ReportAllocs()
	for b.Loop() {
		s, _ := bulkhead.Acquire(context.Background())
		s.Release()
	}
}

// BenchmarkQueued measures the same while callers wait for each other.
func BenchmarkQueued(b *testing.B) {
	bulkhead := mustNew(b, Options{Limit: 1, Queue: 1 << 20})
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			s, err := bulkhead.Acquire(context.Background())
			if err != nil {
				b.Error(err)
				return
			}
			s.Release()
		}
	})
}

// BenchmarkSet measures taking and releasing a place by name.
func BenchmarkSet(b *testing.B) {
	set := mustNewSet(b, SetOptions{Each: Options{Limit: 100}})
	b.ReportAllocs()
	for b.Loop() {
		s, _ := set.Acquire(context.Background(), "search")
		s.Release()
	}
}
