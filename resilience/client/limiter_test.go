package client

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stintdev/stint"
)

// failing is a store that fails until a time and decides by the policy of the claim, as
// guard does.
type failing struct {
	stint.Store
	until time.Time
}

func (f *failing) Take(ctx context.Context, c stint.Claim) (stint.Decision, error) {
	switch {
	case !time.Now().Before(f.until):
		return f.Store.Take(ctx, c)
	case c.Policy.OnFailure == stint.FailClosed:
		return stint.Decision{Degraded: true, Unavailable: true, Limit: c.Limit.Max(), RetryAfter: time.Second}, nil
	}
	return stint.Decision{Allowed: true, Degraded: true, Limit: c.Limit.Max()}, nil
}

// The policy of a limiter decides what happens to attempts while its store fails.
func TestPolicyOfTheLimiterApplies(t *testing.T) {
	for _, c := range []struct {
		name        string
		policy      stint.OnFailure
		taken       int64         // before the call
		down        time.Duration // how long the store fails
		timeout     time.Duration
		code        error // nil: the attempt is sent
		unavailable bool
		retryAfter  time.Duration
		took        time.Duration
	}{
		{"open sends", stint.FailOpen, 1, time.Hour, 0, nil, false, 0, 0},
		{"closed waits for the store", stint.FailClosed, 0, 3 * time.Second, 0, nil, false, 0, 3 * time.Second},
		{"closed refuses", stint.FailClosed, 0, time.Hour, 500 * time.Millisecond, stint.CodeUnavailable, true, time.Second, 0},
		{"over the limit", stint.FailClosed, 1, 0, 500 * time.Millisecond, stint.CodeTimeout, false, 10 * time.Second, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start, memory := time.Now(), stint.NewMemory(stint.MemoryOptions{})
				limit := must(stint.Spec{Limit: 1, Window: 10 * time.Second}.Compile())
				must(must(stint.NewLimiter(memory, "client", limit)).AllowN(t.Context(), "orders.example", c.taken))
				limiter := must(stint.NewLimiter(&failing{memory, start.Add(c.down)}, "client", limit)).With(stint.Policy{OnFailure: c.policy})
				resp, err := get(t, must(New(Options{Chain: Chain{Name: "orders", Limiter: limiter}, Timeout: c.timeout, Base: answers(200)})))
				if time.Since(start) != c.took || !errors.Is(err, c.code) {
					t.Fatalf("%v after %v", err, time.Since(start))
				}
				if c.code == nil {
					resp.Body.Close()
					return
				}
				var refused *RefusedError
				if !errors.As(err, &refused) || refused.Part != PartLimiter || refused.Unavailable != c.unavailable || refused.RetryAfter != c.retryAfter {
					t.Errorf("%+v", err)
				}
			})
		})
	}
}

// The wait of an attempt follows the clock of its limiter: no time passes outside of it.
func TestWaitForATurnFollowsTheClock(t *testing.T) {
	clock := &stepping{time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)}
	start := clock.now
	store := stint.NewMemory(stint.MemoryOptions{Clock: clock.Now})
	limiter := must(stint.NewLimiter(store, "client", stint.MustParseLimit("1/h"))).WithClock(clock)
	rt := must(New(Options{Chain: Chain{Limiter: limiter}, Base: answers(200)}))
	for range 3 {
		must(get(t, rt)).Body.Close()
	}
	if waited := clock.now.Sub(start); waited != 2*time.Hour {
		t.Errorf("waited %v", waited)
	}
}

// stepping is a clock whose sleepers let the time pass at once.
type stepping struct{ now time.Time }

func (s *stepping) Now() time.Time { return s.now }

func (s *stepping) Sleep(ctx context.Context, d time.Duration) error {
	s.now = s.now.Add(max(0, d))
	return ctx.Err()
}
