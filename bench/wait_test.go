package main

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"

	"github.com/stintdev/stint"
)

// waitN waits for n units.
type waitN func(ctx context.Context, n int) error

// ours returns a wait of Stint for 200 units a second.
func ours(t *testing.T, s stint.Spec) waitN {
	t.Helper()
	s.Limit, s.Window = 200, time.Second
	limit, err := s.Compile()
	if err != nil {
		t.Fatal(err)
	}
	limiter, err := stint.NewLimiter(stint.NewMemory(stint.MemoryOptions{}), "wait", limit)
	if err != nil {
		t.Fatal(err)
	}
	return func(ctx context.Context, n int) error { return limiter.WaitN(ctx, "key", int64(n)) }
}

func theirs(burst int) waitN { return rate.NewLimiter(200, burst).WaitN }

// crowd runs a hundred workers for a second. Each waits for one unit at a time, for at
// most 250 ms. late is how many waits failed after some time.
func crowd(t *testing.T, wait waitN) (served, late int64) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var in, failed atomic.Int64
		start := time.Now()
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() {
				for time.Since(start) < time.Second {
					asked := time.Now()
					ctx, cancel := context.WithTimeout(t.Context(), 250*time.Millisecond)
					err := wait(ctx, 1)
					cancel()
					switch {
					case err == nil && time.Since(start) <= time.Second:
						in.Add(1)
					case err != nil && time.Since(asked) > 0:
						failed.Add(1)
					}
					time.Sleep(time.Millisecond)
				}
			})
		}
		wg.Wait()
		served, late = in.Load(), failed.Load()
	})
	return served, late
}

// TestWaitUnderLoadBesideXTimeRate compares waiting with golang.org/x/time/rate: Stint
// serves as many callers, and a caller that it does not serve fails at once.
func TestWaitUnderLoadBesideXTimeRate(t *testing.T) {
	measure, measureLate := crowd(t, theirs(1))
	t.Logf("x/time/rate: %d served, %d late", measure, measureLate)
	for name, spec := range map[string]stint.Spec{
		"bucket":       {Capacity: 1},
		"leaky bucket": {Algorithm: stint.LeakyBucket, Queue: 1000},
		"short queue":  {Algorithm: stint.LeakyBucket, Queue: 10},
	} {
		served, late := crowd(t, ours(t, spec))
		t.Logf("%s: %d served, %d late", name, served, late)
		if served < min(measure, 200) || served > 201 || late > 0 {
			t.Errorf("%s: %d were served and %d failed late; x/time/rate: %d and %d", name, served, late, measure, measureLate)
		}
	}
}

// bigCost returns how long a wait for 10 units takes beside loops that wait for 1.
func bigCost(t *testing.T, wait waitN) (took time.Duration) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				for wait(ctx, 1) == nil { //nolint:revive // takes every unit that it is granted
				}
			})
		}
		synctest.Wait()
		start := time.Now()
		if err := wait(ctx, 10); err != nil {
			t.Error(err)
		}
		took = time.Since(start)
		stop()
		wg.Wait()
	})
	return took
}

func TestBigCostBesideXTimeRate(t *testing.T) {
	measure := bigCost(t, theirs(10))
	for name, spec := range map[string]stint.Spec{
		"bucket":       {Capacity: 10},
		"leaky bucket": {Algorithm: stint.LeakyBucket, Queue: 19},
	} {
		took := bigCost(t, ours(t, spec))
		t.Logf("%s: %v; x/time/rate: %v", name, took, measure)
		if took > measure+time.Millisecond {
			t.Errorf("%s: 10 units took %v; x/time/rate: %v", name, took, measure)
		}
	}
}
