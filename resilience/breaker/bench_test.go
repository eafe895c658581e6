package breaker

import (
	"math"
	"sync"
	"testing"
	"time"
)

// closed returns the breakers that are measured in one run, so that the ratios of their
// costs are meaningful even on a busy machine.
func closed(b *testing.B, measure func(b *testing.B, breaker *Breaker)) {
	clock := NewCoarseClock(time.Millisecond)
	defer clock.Stop()
	slow := Options{FailureRatio: 0.5, SlowRatio: 0.01, SlowAfter: time.Second} // a busy machine is late by less
	coarse, calls := slow, slow
	coarse.CoarseClock, calls.WindowCalls = clock, 1000
	for _, c := range []struct {
		name  string
		o     Options
		exact bool // every call reads the clock, as where calls are few or some are slow
	}{
		{"ratio", Options{}, false},
		{"ratioAndSlow", slow, false},
		{"ratioAndSlowExactly", slow, true},
		{"ratioAndSlowByCoarseClock", coarse, false},
		{"ratioAndSlowByCoarseClockExactly", coarse, true},
		{"ratioOfCalls", Options{WindowCalls: 100}, false},
		{"ratioOfCallsAndSlow", calls, false},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			breaker := mustNew(b, c.o)
			if c.exact {
				breaker.window.current.Load().run.timeAllUntil.Store(math.MaxInt64)
			}
			measure(b, breaker)
		})
	}
}

// best calls f for the benchmark. Beside the mean it reports the cost in the best of a
// few thousand consecutive calls: the cost while no other program uses the processor. It
// measures that on the stack of a new goroutine. On the stack of the benchmark, whose
// alignment depends on the size of Options, a store of 16 bytes may cross a cache line,
// which costs 0.6 ns.
func best(b *testing.B, f func()) {
	for b.Loop() {
		f()
	}
	const row = 2000
	shortest, done := time.Duration(math.MaxInt64), make(chan struct{})
	go func() {
		defer close(done)
		for range 200 {
			start := time.Now()
			for range row {
				f()
			}
			shortest = min(shortest, time.Since(start))
		}
	}()
	<-done
	b.ReportMetric(float64(shortest)/row, "best-ns/op")
}

// BenchmarkClosed measures a call through a closed breaker: the check before it and the
// record after it.
func BenchmarkClosed(b *testing.B) {
	closed(b, func(b *testing.B, breaker *Breaker) {
		best(b, func() {
			call, _ := breaker.Begin()
			call.Success()
		})
	})
	b.Run("aMutexAlone", func(b *testing.B) {
		var mu sync.Mutex
		n := 0
		best(b, func() {
			mu.Lock()
			n++
			mu.Unlock()
		})
	})
	b.Run("theClockAlone", func(b *testing.B) {
		breaker := mustNew(b, Options{})
		best(b, func() { _ = breaker.now() })
	})
}

// BenchmarkClosedContended measures the same from all processors at once.
func BenchmarkClosedContended(b *testing.B) {
	closed(b, func(b *testing.B, breaker *Breaker) {
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				call, _ := breaker.Begin()
				call.Success()
			}
		})
	})
	b.Run("aMutexAlone", func(b *testing.B) {
		var mu sync.Mutex
		n := 0
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				mu.Lock()
				n++
				mu.Unlock()
			}
		})
	})
}

func BenchmarkOpen(b *testing.B) {
	breaker := mustNew(b, Options{ConsecutiveFailures: 1, OpenFor: time.Hour, MaxOpenFor: time.Hour})
	call, _ := breaker.Begin()
	call.Failure()
	b.ReportAllocs()
	for b.Loop() {
		if _, ok := breaker.Begin(); ok {
			b.Fatal("let through")
		}
	}
}
