package breaker

import (
	"testing"
	"time"
)

var benchmarked = []struct {
	name string
	o    Options
}{
	{"ratio", Options{}},
	{"ratioAndSlow", Options{FailureRatio: 0.5, SlowRatio: 0.01, SlowAfter: 10 * time.Millisecond}},
}

// BenchmarkClosed is what a call through a closed breaker costs: the check
// before it and the record after it.
func BenchmarkClosed(b *testing.B) {
	for _, c := range benchmarked {
		b.Run(c.name, func(b *testing.B) {
			breaker := mustNew(b, c.o)
			b.ReportAllocs()
			for b.Loop() {
				call, _ := breaker.Begin()
				call.Success()
			}
		})
	}
}

// BenchmarkClosedContended is the same from all processors at once.
func BenchmarkClosedContended(b *testing.B) {
	for _, c := range benchmarked {
		b.Run(c.name, func(b *testing.B) {
			breaker := mustNew(b, c.o)
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					call, _ := breaker.Begin()
					call.Success()
				}
			})
		})
	}
}

// BenchmarkClock is the part of it that is the clock's.
func BenchmarkClock(b *testing.B) {
	breaker := mustNew(b, Options{})
	for b.Loop() {
		_ = breaker.now()
	}
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
