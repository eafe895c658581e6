package breaker

import (
	"sync"
	"testing"
	"time"
)

// closed are breakers, each beside the others in one run: ratios of their costs
// mean something where the machine is busy, too.
func closed(b *testing.B, measure func(b *testing.B, breaker *Breaker)) {
	clock, stop := CoarseClock(time.Millisecond)
	defer stop()
	slow := Options{FailureRatio: 0.5, SlowRatio: 0.01, SlowAfter: 10 * time.Millisecond}
	coarse, calls := slow, slow
	coarse.Clock, calls.WindowCalls = clock, 1000
	for _, c := range []struct {
		name string
		o    Options
	}{
		{"ratio", Options{}},
		{"ratioAndSlow", slow},
		{"ratioAndSlowByCoarseClock", coarse},
		{"ratioOfCalls", Options{WindowCalls: 100}},
		{"ratioOfCallsAndSlow", calls},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			measure(b, mustNew(b, c.o))
		})
	}
}

// BenchmarkClosed is what a call through a closed breaker costs: the check
// before it and the record after it.
func BenchmarkClosed(b *testing.B) {
	closed(b, func(b *testing.B, breaker *Breaker) {
		for b.Loop() {
			call, _ := breaker.Begin()
			call.Success()
		}
	})
	b.Run("aMutexAlone", func(b *testing.B) {
		var mu sync.Mutex
		n := 0
		for b.Loop() {
			mu.Lock()
			n++
			mu.Unlock()
		}
	})
	b.Run("theClockAlone", func(b *testing.B) {
		breaker := mustNew(b, Options{})
		for b.Loop() {
			_ = breaker.now()
		}
	})
}

// BenchmarkClosedContended is the same from all processors at once.
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
