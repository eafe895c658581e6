package stintpolicy

import (
	"context"
	"errors"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/ratelimiter"
	"github.com/failsafe-go/failsafe-go/retrypolicy"
	"github.com/failsafe-go/failsafe-go/timeout"

	"github.com/stintdev/stint"
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// limiter returns a limiter of two a second, a token bucket by default.
func limiter(s stint.Spec) *stint.Limiter {
	s.Limit, s.Window = 2, time.Second
	return must(stint.NewLimiter(stint.NewMemory(stint.MemoryOptions{Clock: time.Now}), "policy", must(s.Compile())))
}

func TestDeniedExecutionsDoNotRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		denials, ran := 0, 0
		p := must(New(Options[int]{Limiter: limiter(stint.Spec{}), OnDenied: func(_ failsafe.ExecutionEvent[int], d stint.Decision) {
			if denials++; d.Limit != 2 {
				t.Errorf("%+v", d)
			}
		}}))
		for i := range 3 {
			got, err := failsafe.With[int](p).Get(func() (int, error) { ran++; return 42, nil })
			var denied *DeniedError
			if isDenied := errors.As(err, &denied); isDenied != (i == 2) || isDenied && denied.Decision.RetryAfter != 500*time.Millisecond || !isDenied && got != 42 {
				t.Errorf("execution %d: %d, %v", i, got, err)
			}
			if (i == 2) != errors.Is(err, ratelimiter.ErrExceeded) {
				t.Errorf("execution %d: %v", i, err)
			}
		}
		if denials != 1 || ran != 2 {
			t.Errorf("OnDenied was called %d times, ran %d times", denials, ran)
		}
	})
}

func TestWaits(t *testing.T) {
	for _, c := range []struct {
		name   string
		spec   stint.Spec
		max    time.Duration
		runs   int
		denied int
		took   time.Duration
	}{
		{"notAtAll", stint.Spec{}, 0, 2, 2, 0},
		{"tooShort", stint.Spec{}, 500*time.Millisecond - 1, 2, 2, 0},
		{"longEnough", stint.Spec{}, 500 * time.Millisecond, 4, 0, time.Second},
		{"aShaperOneByOne", stint.Spec{Algorithm: stint.LeakyBucket, Queue: 10}, 600 * time.Millisecond, 4, 0, 1500 * time.Millisecond},
		{"notForAShaper", stint.Spec{Algorithm: stint.LeakyBucket, Queue: 10}, 0, 1, 3, 0},
		{"forAShaper", stint.Spec{Algorithm: stint.LeakyBucket, Queue: 10}, time.Minute, 4, 0, 1500 * time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start, runs, denied := time.Now(), 0, 0
				e := failsafe.With[any](must(New(Options[any]{Limiter: limiter(c.spec), MaxWait: c.max})))
				for range 4 {
					if err := e.Run(func() error { runs++; return nil }); err != nil {
						denied++
					}
				}
				if took := time.Since(start).Round(time.Millisecond); runs != c.runs || denied != c.denied || took < c.took-time.Second/2 || took > c.took {
					t.Errorf("%d ran, %d denied in %v; want %d, %d in %v", runs, denied, took, c.runs, c.denied, c.took)
				}
			})
		})
	}
}

// An execution that can never be allowed is denied at once, whatever MaxWait.
func TestNeverIsNotWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		p, start := must(New(Options[any]{Limiter: limiter(stint.Spec{}), Cost: 3, MaxWait: math.MaxInt64})), time.Now()
		err := failsafe.With[any](p).WithContext(ctx).Run(func() error { return nil })
		if took := time.Since(start); !errors.Is(err, ratelimiter.ErrExceeded) || !strings.Contains(err.Error(), "never") || took != 0 {
			t.Errorf("%v after %v", err, took)
		}
	})
}

// An execution that cannot wait leaves the queue unchanged.
func TestQueueIsNotJoinedInVain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limiter(stint.Spec{Algorithm: stint.LeakyBucket, Queue: 10})
		e := failsafe.With[any](must(New(Options[any]{Limiter: l})))
		for range 5 {
			_ = e.Run(func() error { return nil })
		}
		if d := must(l.Peek(t.Context(), "failsafe")); d.Delay != 500*time.Millisecond {
			t.Errorf("the next would wait %v", d.Delay)
		}
	})
}

// Executions whose MaxWait is shorter than their wait are not counted; those that wait
// take turns.
func TestExecutionsUnderLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, spec := range []stint.Spec{{Capacity: 1}, {Algorithm: stint.LeakyBucket, Queue: 100}} {
			e, start := failsafe.With[any](must(New(Options[any]{Limiter: limiter(spec), MaxWait: 2 * time.Second}))), time.Now()
			var ran, late atomic.Int64
			var wg sync.WaitGroup
			for range 20 {
				wg.Go(func() {
					for time.Since(start) < 10*time.Second {
						asked := time.Now()
						err := e.Run(func() error { ran.Add(1); return nil })
						if err != nil && time.Since(asked) > 0 {
							late.Add(1)
						}
						time.Sleep(10 * time.Millisecond)
					}
				})
			}
			wg.Wait()
			if n := ran.Load(); n < 20 || n > 26 || late.Load() > 0 { // including those that still waited at the end
				t.Errorf("%v: %d ran and %d were denied late; want two a second and none", spec.Algorithm, n, late.Load())
			}
		}
	})
}

// A retry policy around this one retries at the time that the limiter names.
func TestRetriesComeBackInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := must(New(Options[any]{Limiter: limiter(stint.Spec{})}))
		retries := retrypolicy.NewBuilder[any]().WithMaxRetries(3).WithDelayFunc(Delay[any]).Build()
		e, start := failsafe.With[any](retries, p), time.Now()
		for range 3 {
			if err := e.Run(func() error { return nil }); err != nil {
				t.Error(err)
			}
		}
		if took := time.Since(start); took != 500*time.Millisecond {
			t.Errorf("took %v", took)
		}
	})
}

func TestDelayLeavesOtherErrorsAlone(t *testing.T) {
	retries := retrypolicy.NewBuilder[any]().WithMaxRetries(1).WithDelayFunc(func(exec failsafe.ExecutionAttempt[any]) time.Duration {
		if d := Delay(exec); d != -1 {
			t.Errorf("got %v", d)
		}
		return 0
	}).Build()
	_ = failsafe.With[any](retries).Run(func() error { return errors.New("down") })
	_ = failsafe.With[any](retries).Run(func() error { return &DeniedError{stint.Decision{RetryAfter: stint.Never}} })
}

// An execution that gives up refunds its charge.
func TestGivingUpGivesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limiter(stint.Spec{})
		p := must(New(Options[any]{Limiter: l, MaxWait: time.Minute}))
		must(l.AllowN(t.Context(), "failsafe", 2))
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		start := time.Now()
		if err := failsafe.With[any](p).WithContext(ctx).Run(func() error { t.Error("it ran"); return nil }); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 0 {
			t.Errorf("got %v after %v", err, time.Since(start))
		}
		time.Sleep(time.Second)
		if d := must(l.Peek(t.Context(), "failsafe")); d.Remaining != 2 {
			t.Errorf("%d remain", d.Remaining)
		}
	})
}

// A timeout policy around this one ends the wait.
func TestTimeoutEndsTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limiter(stint.Spec{})
		must(l.AllowN(t.Context(), "failsafe", 2))
		p, start := must(New(Options[any]{Limiter: l, MaxWait: time.Minute})), time.Now()
		err := failsafe.With[any](timeout.New[any](100*time.Millisecond), p).Run(func() error { return nil })
		if took := time.Since(start); !errors.Is(err, timeout.ErrExceeded) || took != 100*time.Millisecond {
			t.Errorf("%v after %v", err, took)
		}
	})
}

type callerKey struct{}

func TestKeysCountApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := must(New(Options[any]{Limiter: limiter(stint.Spec{}), Cost: 2, Key: func(ctx context.Context) string {
			name, _ := ctx.Value(callerKey{}).(string)
			return "caller:" + name
		}}))
		for i, name := range []string{"a", "b", "a"} {
			ctx := context.WithValue(t.Context(), callerKey{}, name)
			err := failsafe.With[any](p).WithContext(ctx).Run(func() error { return nil })
			if (err != nil) != (i == 2) {
				t.Errorf("%d: %v", i, err)
			}
		}
	})
}

// A Policy[any] works beside policies of every result type.
func TestAnyComposes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := must(New(Options[any]{Limiter: limiter(stint.Spec{})}))
		var ran atomic.Int64
		e := failsafe.With[string](retrypolicy.NewWithDefaults[string]()).ComposeAny(p)
		got, err := e.Get(func() (string, error) { ran.Add(1); return "hello", nil })
		if got != "hello" || err != nil {
			t.Errorf("%q, %v", got, err)
		}
	})
}

// down is a store that cannot be reached.
type down struct{ stint.Store }

func (down) Take(context.Context, stint.Claim) (stint.Decision, error) {
	return stint.Decision{}, &stint.Error{Code: stint.CodeUnavailable, Problem: "down"}
}

func TestStoreErrorsAreNoDenials(t *testing.T) {
	p := must(New(Options[any]{Limiter: must(stint.NewLimiter(down{}, "policy", must(stint.PerSecond(2).Compile())))}))
	err := failsafe.With[any](p).Run(func() error { return nil })
	var broken *stint.Error
	if !errors.As(err, &broken) || errors.Is(err, ratelimiter.ErrExceeded) {
		t.Errorf("got %v", err)
	}
}

func TestOptionsThatCannotBe(t *testing.T) {
	l := limiter(stint.Spec{})
	for field, o := range map[string]Options[any]{"Limiter": {}, "Limiter: is missing, or": {Limiter: new(stint.Limiter)}, "Cost": {Limiter: l, Cost: -1}, "MaxWait": {Limiter: l, MaxWait: -1}} {
		if _, err := New(o); err == nil || !strings.Contains(err.Error(), "stintpolicy: "+field) {
			t.Errorf("%s: %v", field, err)
		}
	}
}

// A policy that was not made with New fails every execution with an error that says so.
func TestZeroValues(t *testing.T) {
	var p Policy[int]
	if _, err := failsafe.With[int](&p).Get(func() (int, error) { t.Error("it ran"); return 0, nil }); !errors.Is(err, errZero) {
		t.Error(err)
	}
	if _, err := New(Options[int]{}); err == nil || !strings.Contains(err.Error(), "Limiter") {
		t.Errorf("no limiter: %v", err)
	}
}

// failing is a store that fails until a time and decides by the policy of the claim, as
// package guard does.
type failing struct {
	stint.Store
	until time.Time
}

func (f *failing) Take(ctx context.Context, c stint.Claim) (stint.Decision, error) {
	switch {
	case !time.Now().Before(f.until):
		return f.Store.Take(ctx, c)
	case c.Policy.OnFailure == stint.FailClosed:
		return stint.Decision{Degraded: true, Unavailable: true, Limit: 2, RetryAfter: time.Second}, nil
	}
	return stint.Decision{Allowed: true, Degraded: true, Limit: 2}, nil
}

// The policy of the limiter says what happens while its store fails: a failure of the
// store is no denial.
func TestPolicyOfTheLimiterApplies(t *testing.T) {
	for _, c := range []struct {
		name     string
		policy   stint.OnFailure
		down     time.Duration // how long the store fails
		maxWait  time.Duration
		deadline time.Duration
		retries  int
		ran      bool
		took     time.Duration
	}{
		{"open", stint.FailOpen, time.Hour, 0, time.Hour, 0, true, 0},
		{"closed", stint.FailClosed, time.Hour, 0, time.Hour, 0, false, 0},
		{"closed, waits too briefly", stint.FailClosed, time.Hour, time.Second - 1, time.Hour, 0, false, 0},
		{"closed, waits for the store", stint.FailClosed, 3 * time.Second, time.Minute, time.Hour, 0, true, 3 * time.Second},
		{"closed, under a deadline", stint.FailClosed, time.Hour, time.Minute, 500 * time.Millisecond, 0, false, 0},
		{"closed, with retries", stint.FailClosed, 2 * time.Second, 0, time.Hour, 2, true, 2 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				store := &failing{stint.NewMemory(stint.MemoryOptions{}), start.Add(c.down)}
				l := must(stint.NewLimiter(store, "policy", stint.MustParseLimit("2/s"))).With(stint.Policy{OnFailure: c.policy})
				p := must(New(Options[any]{Limiter: l, MaxWait: c.maxWait, OnDenied: func(failsafe.ExecutionEvent[any], stint.Decision) { t.Error("a denial") }}))
				retries := retrypolicy.NewBuilder[any]().WithMaxRetries(c.retries).WithDelayFunc(Delay[any]).Build()
				ctx, cancel := context.WithTimeout(t.Context(), c.deadline)
				defer cancel()
				ran := false
				err := failsafe.With[any](retries, p).WithContext(ctx).Run(func() error { ran = true; return nil })
				if ran != c.ran || time.Since(start) != c.took || (err == nil) != c.ran {
					t.Errorf("ran %v after %v: %v", ran, time.Since(start), err)
				}
				if e := new(stint.Error); err != nil && (!errors.As(err, &e) || !errors.Is(err, stint.CodeUnavailable) || e.RetryAfter != time.Second || errors.Is(err, ratelimiter.ErrExceeded)) {
					t.Errorf("%v", err)
				}
			})
		})
	}
}

// stepping is a clock whose sleepers let the time pass at once.
type stepping struct{ now time.Time }

func (s *stepping) Now() time.Time { return s.now }

func (s *stepping) Sleep(ctx context.Context, d time.Duration) error {
	s.now = s.now.Add(max(0, d))
	return ctx.Err()
}

// Executions wait by the clock of the limiter: no time passes outside of it.
func TestWaitFollowsTheClock(t *testing.T) {
	clock := &stepping{time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)}
	start, store := clock.now, stint.NewMemory(stint.MemoryOptions{Clock: clock.Now})
	l := must(stint.NewLimiter(store, "policy", stint.MustParseLimit("1/h"))).WithClock(clock)
	e := failsafe.With[any](must(New(Options[any]{Limiter: l, MaxWait: time.Hour})))
	for range 3 {
		if err := e.Run(func() error { return nil }); err != nil {
			t.Fatal(err)
		}
	}
	if waited := clock.now.Sub(start); waited != 2*time.Hour {
		t.Errorf("waited %v", waited)
	}
}

func TestDenialsNameTheWait(t *testing.T) {
	for want, d := range map[string]stint.Decision{
		"rate limit of 2 exceeded (try again in 1s)":        {Limit: 2, RetryAfter: time.Second},
		"rate limit of 2 can never be enough for this cost": {Limit: 2, RetryAfter: stint.Never},
	} {
		if got := (&DeniedError{d}).Error(); got != want {
			t.Errorf("%q; want %q", got, want)
		}
	}
}
