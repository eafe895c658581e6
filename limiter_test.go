package stint_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stintdev/stint"
)

func mustLimit(t *testing.T, s stint.Spec) stint.Limit {
	t.Helper()
	l, err := s.Compile()
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func newLimiter(t *testing.T, specs ...stint.Spec) *stint.Limiter {
	t.Helper()
	limits := make([]stint.Limit, len(specs))
	for i, s := range specs {
		limits[i] = mustLimit(t, s)
	}
	return limiterOver(t, stint.NewMemory(stint.MemoryOptions{}), limits...)
}

func limiterOver(t *testing.T, store stint.Store, limits ...stint.Limit) *stint.Limiter {
	t.Helper()
	limiter, err := stint.NewLimiter(store, "test", limits...)
	if err != nil {
		t.Fatal(err)
	}
	return limiter
}

func codeOf(err error) stint.Code {
	if e, ok := errors.AsType[*stint.Error](err); ok {
		return e.Code
	}
	return 255
}

func TestWaitReturnsWhenTheBucketHasRefilled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter := newLimiter(t, stint.PerSecond(4))
		start := time.Now()
		for range 8 {
			if err := limiter.Wait(t.Context(), "k"); err != nil {
				t.Fatal(err)
			}
		}
		if waited := time.Since(start); waited != time.Second {
			t.Errorf("8 of 4 a second, burst 4, took %v; want 1s", waited)
		}
	})
}

func TestWaitServesTheDelayOfAShaper(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter := newLimiter(t, stint.Spec{Algorithm: stint.LeakyBucket, Limit: 10, Window: time.Second, Queue: 100})
		start := time.Now()
		for range 11 {
			if err := limiter.Wait(t.Context(), "k"); err != nil {
				t.Fatal(err)
			}
		}
		if waited := time.Since(start); waited != time.Second {
			t.Errorf("the 11th of 10 a second left after %v; want 1s", waited)
		}
	})
}

func TestWaitFailsAtOnceWhenTheDeadlineIsTooNear(t *testing.T) {
	for name, spec := range map[string]stint.Spec{
		"bucket": {Limit: 1, Window: time.Second},
		"shaper": {Algorithm: stint.LeakyBucket, Limit: 1, Window: time.Second, Queue: 5},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				limiter := newLimiter(t, spec)
				start := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
				defer cancel()
				if err := limiter.Wait(ctx, "k"); err != nil {
					t.Fatal(err)
				}
				before, _ := limiter.Peek(ctx, "k")
				if err := limiter.Wait(ctx, "k"); codeOf(err) != stint.CodeTimeout || !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("Wait = %v; want a timeout", err)
				}
				after, _ := limiter.Peek(ctx, "k")
				if time.Since(start) != 0 || after.Remaining != before.Remaining {
					t.Errorf("waited %v and left %d of %d; want no wait and no charge", time.Since(start), after.Remaining, before.Remaining)
				}
			})
		})
	}
}

func TestCallerThatGivesUpIsNotCharged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter := newLimiter(t, stint.PerHour(2))
		ctx, cancel := context.WithCancel(t.Context())
		if _, err := limiter.AllowN(ctx, "k", 2); err != nil {
			t.Fatal(err)
		}
		done := make(chan error)
		go func() { done <- limiter.Wait(ctx, "k") }()
		synctest.Wait()
		cancel()
		if err := <-done; codeOf(err) != stint.CodeCanceled {
			t.Errorf("Wait = %v; want canceled", err)
		}
		if err := limiter.Wait(ctx, "other"); codeOf(err) != stint.CodeCanceled {
			t.Errorf("Wait under an ended context = %v; want canceled", err)
		}
		if d, _ := limiter.Peek(t.Context(), "other"); d.Remaining != 2 {
			t.Errorf("the other key has %d left; want 2", d.Remaining)
		}
	})
}

func TestWaitForMoreThanTheLimitFails(t *testing.T) {
	limiter := newLimiter(t, stint.PerHour(2))
	if err := limiter.WaitN(t.Context(), "k", 3); codeOf(err) != stint.CodeInvalid {
		t.Errorf("WaitN(3) of 2 = %v; want invalid", err)
	}
}

func TestCancelGivesBackWhatHasNotRefilled(t *testing.T) {
	for _, specs := range [][]stint.Spec{{stint.PerSecond(10)}, {stint.PerSecond(10), stint.PerMinute(600)}} {
		synctest.Test(t, func(t *testing.T) {
			limiter := newLimiter(t, specs...)
			r, err := limiter.Reserve(t.Context(), "k", 5)
			if err != nil || !r.Decision.Allowed {
				t.Fatal(r.Decision, err)
			}
			if _, err := limiter.AllowN(t.Context(), "k", 5); err != nil {
				t.Fatal(err)
			}
			time.Sleep(300 * time.Millisecond) // virtual: 3 have refilled
			if err := r.Cancel(t.Context()); err != nil {
				t.Fatal(err)
			}
			each := make([]stint.Decision, len(specs))
			_, _, err = limiter.AllowEach(t.Context(), "k", 0, 0, each)
			want := []int64{5, 595} // 3 refilled, and 2 of the 5 were refunded
			for i, d := range each {
				if err != nil || d.Remaining != want[i] {
					t.Errorf("%d left of %d, %v; want %d", d.Remaining, d.Limit, err, want[i])
				}
			}
		})
	}
}

func TestGroupOfLimitsIsAllOrNone(t *testing.T) {
	limiter := newLimiter(t, stint.PerHour(3), stint.PerDay(2))
	for i, want := range []bool{true, true, false, false} {
		d, err := limiter.Allow(t.Context(), "k")
		if err != nil || d.Allowed != want {
			t.Fatalf("request %d: %+v, %v; want allowed %v", i, d, err, want)
		}
	}
	if err := limiter.Reset(t.Context(), "k"); err != nil {
		t.Fatal(err)
	}
	if d, _ := limiter.Peek(t.Context(), "k"); d.Limit != 2 || d.Remaining != 2 {
		t.Errorf("after a reset %d of %d left; want 2 of 2", d.Remaining, d.Limit)
	}
}

func TestLimiterKeepsItsOwnLimits(t *testing.T) {
	hour, day := mustLimit(t, stint.PerHour(3)), mustLimit(t, stint.PerDay(2))
	given := []stint.Limit{hour, day}
	limiter := limiterOver(t, stint.NewMemory(stint.MemoryOptions{}), given...)
	given[0] = stint.Limit{}
	limiter.Limits()[1] = stint.Limit{}
	if got := limiter.Limits(); len(got) != 2 || got[0].Name() != hour.Name() || got[1].Name() != day.Name() {
		t.Errorf("limits %v; want those given", got)
	}
}

func TestLimiterRefusesWhatItCannotDecide(t *testing.T) {
	limiter := newLimiter(t, stint.PerHour(3))
	for name, take := range map[string]func() error{
		"cost below 0":    func() error { _, err := limiter.AllowN(t.Context(), "k", -1); return err },
		"cost too great":  func() error { _, err := limiter.AllowN(t.Context(), "k", stint.MaxCost+1); return err },
		"empty key":       func() error { _, err := limiter.Allow(t.Context(), ""); return err },
		"reserve nothing": func() error { _, err := limiter.Reserve(t.Context(), "k", 0); return err },
		"wait for none":   func() error { return limiter.WaitN(t.Context(), "k", 0) },
	} {
		if err := take(); codeOf(err) != stint.CodeInvalid {
			t.Errorf("%s: %v; want an invalid claim", name, err)
		}
	}
}

// Under the race detector a pool drops one object in four, which is still less
// than one allocation per call.
func TestAllowAllocatesNothing(t *testing.T) {
	specs := []stint.Spec{stint.PerSecond(1000), stint.PerHour(1_000_000), {Algorithm: stint.SlidingWindowCounter, Limit: 1_000_000, Window: time.Hour, Buckets: 6}}
	for n := 1; n <= len(specs); n++ {
		limiter, out := newLimiter(t, specs[:n]...), make([]stint.Decision, n)
		for name, allow := range map[string]func(){
			"Allow":     func() { _, _ = limiter.Allow(context.Background(), "key") },
			"AllowEach": func() { _, _, _ = limiter.AllowEach(context.Background(), "key", 1, 0, out) },
		} {
			if got := testing.AllocsPerRun(1000, allow); got != 0 {
				t.Errorf("%s of %d limits allocates %v times; want 0", name, n, got)
			}
		}
	}
}

// flaky is a store that fails open while it is down.
type flaky struct {
	stint.Store
	down  bool
	fails atomic.Bool
}

func (f *flaky) Take(ctx context.Context, c stint.Claim) (stint.Decision, error) {
	if f.down {
		return stint.Decision{Allowed: true, Degraded: true}, nil
	}
	if f.fails.Load() {
		return stint.Decision{}, &stint.Error{Code: stint.CodeUnavailable, Problem: "down"}
	}
	return f.Store.Take(ctx, c)
}

func TestCancelGivesNothingBackThatTheStoreNeverCharged(t *testing.T) {
	store := &flaky{Store: stint.NewMemory(stint.MemoryOptions{})}
	limiter := limiterOver(t, store, mustLimit(t, stint.PerMinute(10)))
	if _, err := limiter.AllowN(t.Context(), "k", 5); err != nil {
		t.Fatal(err)
	}
	store.down = true
	r, err := limiter.Reserve(t.Context(), "k", 5)
	if err != nil {
		t.Fatal(err)
	}
	store.down = false
	if err := r.Cancel(t.Context()); err != nil {
		t.Fatal(err)
	}
	if d, err := limiter.Peek(t.Context(), "k"); err != nil || d.Remaining != 5 {
		t.Errorf("%d remain, %v; want the 5 that were not refunded", d.Remaining, err)
	}
}
