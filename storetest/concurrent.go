package storetest

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"pgregory.net/rapid"

	"github.com/stintdev/stint"
)

const (
	goroutines = 16
	admitting  = 100 // the limit
	attempts   = 20  // calls of each goroutine
)

// limitsOf returns one limit of each algorithm. An idle key may take n units
// under each.
func limitsOf(n int64) []stint.Limit {
	return []stint.Limit{
		compiled(stint.Spec{Limit: n, Window: time.Hour}),
		compiled(stint.Spec{Algorithm: stint.GCRA, Limit: n, Window: time.Hour}),
		compiled(stint.Spec{Algorithm: stint.FixedWindow, Limit: n, Window: time.Hour}),
		compiled(stint.Spec{Algorithm: stint.SlidingWindowCounter, Limit: n, Window: time.Hour, Buckets: 6}),
		compiled(stint.Spec{Algorithm: stint.SlidingWindowLog, Limit: n, Window: time.Hour}),
		compiled(stint.Spec{Algorithm: stint.LeakyBucket, Limit: n, Window: time.Hour, Queue: n - 1}),
		compiled(stint.Spec{Algorithm: stint.Quota, Limit: n, Period: "day"}),
	}
}

// storm makes attempts calls on each of many goroutines, and returns how many of
// the calls were admitted.
func storm(tb rapid.TB, call func(i int) (bool, error)) int64 {
	tb.Helper()
	var total atomic.Int64
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			for i := range attempts {
				ok, err := call(g*attempts + i)
				if err != nil {
					tb.Errorf("call %d of goroutine %d: %v", i, g, err)
				}
				if ok {
					total.Add(1)
				}
			}
		})
	}
	wg.Wait()
	return total.Load()
}

// concurrentTakes checks that goroutines which contend for a limit of K get
// exactly K units in all.
func concurrentTakes(tb rapid.TB, b *bench) {
	for _, limit := range limitsOf(admitting) {
		c := stint.Claim{Key: b.newScope(), Limit: limit, Cost: 1}
		n := storm(tb, func(int) (bool, error) {
			d, err := b.store.Take(context.Background(), c)
			return d.Allowed, err
		})
		if n != admitting {
			tb.Errorf("%v: %d goroutines admitted %d, want %d", limit, goroutines, n, admitting)
		}
	}
}

// concurrentGroups checks that groups over shared keys, in every order, charge
// all of their keys or none. The groups are pairs of three keys. The units
// charged to all keys must be twice the number of admitted pairs, and at the end
// at most one key has units left, so that no pair fits.
func concurrentGroups(tb rapid.TB, b *bench) {
	for _, limit := range limitsOf(admitting) {
		scope := b.newScope()
		claim := func(i int) stint.Claim {
			return stint.Claim{Key: fmt.Sprint(scope, i%3), Limit: limit, Cost: 1}
		}
		n := storm(tb, func(i int) (bool, error) {
			g := stint.Group{Claims: []stint.Claim{claim(i), claim(i + 1 + i%2)}}
			out := make([]stint.Decision, 2)
			err := b.store.TakeGroups(context.Background(), []stint.Group{g}, out)
			return out[0].Allowed && out[1].Allowed, err
		})
		checkPairs(tb, b, claim, n)
	}
}

func checkPairs(tb rapid.TB, b *bench, claim func(int) stint.Claim, admitted int64) {
	tb.Helper()
	h := b.scripted(tb)
	left, spent := int64(0), int64(0)
	for i := range 3 {
		d := h.peek(claim(i))
		spent += d.Limit - d.Remaining
		if d.Remaining > 0 {
			left++
		}
	}
	if spent != 2*admitted || left > 1 {
		tb.Errorf("%v: %d pairs admitted, %d units charged, %d keys with units left", claim(0).Limit, admitted, spent, left)
	}
}
