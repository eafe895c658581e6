package stint

import (
	"testing"
	"time"
)

// BenchmarkStep is a step with its full decision, without clock, hash or
// store.
func BenchmarkStep(b *testing.B) {
	for _, s := range []Spec{
		PerMinute(100),
		{RefillRate: "1000", Capacity: 1000},
		{RefillRate: "1.67", Capacity: 100},
		{Algorithm: FixedWindow, Limit: 100, Window: time.Minute},
		{Algorithm: SlidingWindowCounter, Limit: 100, Window: time.Minute},
		{Algorithm: LeakyBucket, Limit: 100, Window: time.Minute, Queue: 100},
		{Algorithm: Quota, Limit: 100, Period: "month"},
	} {
		l, err := s.Compile()
		if err != nil {
			b.Fatal(err)
		}
		b.Run(l.String(), func(b *testing.B) {
			var c packed
			var from *compiledLimit
			a := input{now: 1_700_000_000_000_000, cost: 1}
			var d Decision
			for b.Loop() {
				a.now += 500
				var r result
				next := l.n.step(c, from, &a, &r)
				if r.write {
					c, from = next, l.n
				}
				d = Decision{}
				l.n.decide(&d, &r, &a)
			}
		})
	}
}
