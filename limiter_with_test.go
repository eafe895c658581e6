package stint_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stintdev/stint"
)

// Take notes the claim as well, for limiters of one limit.
func (n *noted) Take(ctx context.Context, c stint.Claim) (stint.Decision, error) {
	n.claims = append(n.claims[:0], c)
	return n.Store.Take(ctx, c)
}

// Every kind of call of a limiter with a policy sends the policy, and one of a
// limiter without it does not.
func TestPolicyIsOnEveryClaim(t *testing.T) {
	policy := stint.Policy{Consistency: stint.Leased, OnFailure: stint.FailClosed, Replicas: 2}
	hour, day := mustLimit(t, stint.PerHour(30)), mustLimit(t, stint.PerDay(90))
	for _, limits := range [][]stint.Limit{{hour}, {hour, day}} {
		store := &noted{Store: stint.NewMemory(stint.MemoryOptions{})}
		plain := limiterOver(t, store, limits...)
		for want, l := range map[stint.Policy]*stint.Limiter{{}: plain, policy: plain.With(policy), {Replicas: 1}: plain.With(policy).With(stint.Policy{Replicas: 1})} {
			r, _ := l.Reserve(t.Context(), "k", 1)
			for name, call := range map[string]func(){
				"allow":       func() { _, _ = l.Allow(t.Context(), "k") },
				"allow each":  func() { _, _, _ = l.AllowEach(t.Context(), "k", 1, 0, make([]stint.Decision, len(limits))) },
				"peek":        func() { _, _ = l.Peek(t.Context(), "k") },
				"wait":        func() { _ = l.Wait(t.Context(), "k") },
				"wait within": func() { _, _ = l.WaitWithin(t.Context(), "k", 1, 0) },
				"reserve":     func() { _, _ = l.Reserve(t.Context(), "k", 1) },
				"cancel":      func() { _ = r.Cancel(t.Context()) },
				"reset":       func() { _ = l.Reset(t.Context(), "k") },
			} {
				store.claims = nil
				call()
				if len(store.claims) != len(limits) || slices.ContainsFunc(store.claims, func(c stint.Claim) bool { return c.Policy != want || c.Local != nil }) {
					t.Errorf("%s: %+v; want the policy %+v", name, store.claims, want)
				}
			}
		}
	}
}

func TestWithSharesNameAndState(t *testing.T) {
	limiter := newLimiter(t, stint.PerHour(3))
	strict := limiter.With(stint.Policy{OnFailure: stint.FailClosed})
	if _, err := strict.AllowN(t.Context(), "k", 2); err != nil {
		t.Fatal(err)
	}
	if d, err := limiter.Peek(t.Context(), "k"); err != nil || d.Remaining != 1 || strict.Name() != limiter.Name() || strict.Limits()[0].Max() != 3 {
		t.Errorf("%+v, %v, name %s", d, err, strict.Name())
	}
}

func TestWaitersOfCopiesFormOneQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, stint.PerSecond(10))
		plain, strict := q.limiter, q.limiter.With(stint.Policy{OnFailure: stint.FailClosed})
		q.take(10)
		for i, n := range []int64{9, 1, 8, 1} {
			if q.limiter = plain; i%2 == 1 {
				q.limiter = strict
			}
			q.wait(t.Context(), string(rune('a'+i)), n)
		}
		q.want("a 900ms", "b 1s", "c 1.8s", "d 1.9s")
	})
}

func TestLocalLimitIsOnEveryClaim(t *testing.T) {
	store := &noted{Store: stint.NewMemory(stint.MemoryOptions{})}
	limiter := limiterOver(t, store, mustLimit(t, stint.PerHour(30)), mustLimit(t, stint.PerDay(90)))
	local, err := limiter.With(stint.Policy{Replicas: 1}).WithLocal(mustLimit(t, stint.PerMinute(1)))
	if err != nil {
		t.Fatal(err)
	}
	_, _ = local.Allow(t.Context(), "k")
	for _, c := range store.claims {
		if c.Policy != (stint.Policy{OnFailure: stint.FailLocal, Replicas: 1}) || c.Local.Limit.Max() != 1 || c.Local.Limit.Rule() != "test" || c.Local.Key != "" {
			t.Errorf("%+v, local %+v", c, c.Local)
		}
	}
	for _, wrong := range []stint.Limit{{}, mustLimit(t, stint.Spec{Rule: "other", Limit: 1, Window: time.Hour})} {
		if l, err := limiter.WithLocal(wrong); l != nil || stint.CodeOf(err) != stint.CodeInvalid {
			t.Errorf("%v: %v, %v", wrong, l, err)
		}
	}
	_, _ = local.With(stint.Policy{}).Allow(t.Context(), "k")
	for _, c := range store.claims {
		if c.Local != nil || c.Policy != (stint.Policy{}) {
			t.Errorf("%+v: the next policy replaces the local limit too", c)
		}
	}
}

// stepping is a clock whose sleepers let the time pass at once.
type stepping struct{ now time.Time }

func (s *stepping) Now() time.Time { return s.now }

func (s *stepping) Sleep(ctx context.Context, d time.Duration) error {
	s.now = s.now.Add(max(0, d))
	return ctx.Err()
}

// Every wait follows the clock: no time passes outside of it.
func TestWaitFollowsTheClock(t *testing.T) {
	for name, spec := range map[string]stint.Spec{
		"bucket": {Limit: 10, Window: time.Minute, Capacity: 1},
		"leaky":  {Algorithm: stint.LeakyBucket, Limit: 10, Window: time.Minute, Queue: 5},
	} {
		t.Run(name, func(t *testing.T) {
			clock := &stepping{time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)}
			start := clock.now
			store := stint.NewMemory(stint.MemoryOptions{Clock: func() time.Time { return clock.now }})
			limiter := limiterOver(t, store, mustLimit(t, spec)).WithClock(clock).With(stint.Policy{Replicas: 1})
			for range 3 {
				if err := limiter.Wait(t.Context(), "k"); err != nil {
					t.Fatal(err)
				}
			}
			if waited := clock.now.Sub(start); waited != 12*time.Second {
				t.Errorf("waited %v; want 12s", waited)
			}
			// The deadlines of contexts are far from this clock; the time left counts.
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if err := limiter.Wait(ctx, "k"); err != nil || clock.now.Sub(start) != 18*time.Second {
				t.Errorf("%v after %v; want 18s", err, clock.now.Sub(start))
			}
			brief, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			if err := limiter.Wait(brief, "k"); !errors.Is(err, stint.CodeTimeout) || clock.now.Sub(start) != 18*time.Second {
				t.Errorf("%v after %v; want a timeout at once", err, clock.now.Sub(start))
			}
			if d, err := limiter.WaitWithin(brief, "k", 1, 5*time.Second); err != nil && !errors.Is(err, stint.CodeTimeout) || d.Allowed {
				t.Errorf("within 5s: %+v, %v", d, err)
			}
			if d, err := limiter.WaitWithin(ctx, "k", 1, 6*time.Second); err != nil || !d.Allowed || clock.now.Sub(start) != 24*time.Second {
				t.Errorf("within 6s: %+v, %v after %v", d, err, clock.now.Sub(start))
			}
			ended, cancel := context.WithCancel(t.Context())
			cancel()
			if err := limiter.Wait(ended, "k"); !errors.Is(err, stint.CodeCanceled) {
				t.Errorf("under an ended context: %v", err)
			}
		})
	}
}

// bubble is the clock of a synctest bubble, an hour ahead.
type bubble struct{}

func (bubble) Now() time.Time { return time.Now().Add(time.Hour) }

func (bubble) Sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// A waiter that stands by behind a call that takes long ends by the clock too.
func TestStandingByEndsByTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &stalling{Store: stint.NewMemory(stint.MemoryOptions{})}
		limiter, start := limiterOver(t, store, mustLimit(t, stint.PerSecond(1))).WithClock(bubble{}), time.Now()
		_, _ = limiter.Allow(t.Context(), "k")
		done := make(chan error)
		go func() { done <- limiter.Wait(t.Context(), "k") }()
		synctest.Wait()
		store.stalled.Store(true)
		d, err := limiter.WaitWithin(t.Context(), "k", 1, 3*time.Second)
		if err != nil || d.Allowed || d.RetryAfter == 0 || time.Since(start) != 3*time.Second {
			t.Errorf("%+v, %v after %v; want a denial after 3s", d, err, time.Since(start))
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// closed is a store that is down, and tried again in a second.
type closed struct{ stint.Store }

func (closed) Take(context.Context, stint.Claim) (stint.Decision, error) {
	return stint.Decision{Degraded: true, Unavailable: true, Limit: 1, RetryAfter: time.Second}, nil
}

// A wait for a store that fails closed is no wait for a limit.
func TestWaitForAFailedStore(t *testing.T) {
	limiter := limiterOver(t, closed{stint.NewMemory(stint.MemoryOptions{})}, mustLimit(t, stint.PerSecond(1)))
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	err := limiter.Wait(ctx, "k")
	if e := new(stint.Error); !errors.As(err, &e) || e.Code != stint.CodeUnavailable || e.RetryAfter != time.Second || !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
		t.Errorf("%v; want unavailable, at once", err)
	}
	if d, err := limiter.WaitWithin(t.Context(), "k", 1, time.Millisecond); err != nil || !d.Unavailable || d.RetryAfter != time.Second {
		t.Errorf("%+v, %v", d, err)
	}
}
