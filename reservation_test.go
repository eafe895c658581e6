package stint_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stintdev/stint"
)

// refunding is a store with slow refunds that fail with the given errors.
type refunding struct {
	stint.Store

	mu      sync.Mutex
	errs    []error // errors of the next refunds
	refunds int     // number of refunds that reached the store
}

func (s *refunding) Take(ctx context.Context, c stint.Claim) (stint.Decision, error) {
	if c.Cost >= 0 {
		return s.Store.Take(ctx, c)
	}
	time.Sleep(time.Second)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refunds++
	if len(s.errs) > 0 {
		err := s.errs[0]
		s.errs = s.errs[1:]
		return stint.Decision{}, err
	}
	return s.Store.Take(ctx, c)
}

func reserved(t *testing.T, errs ...error) (*stint.Limiter, *refunding, stint.Reservation) {
	t.Helper()
	store := &refunding{Store: stint.NewMemory(stint.MemoryOptions{}), errs: errs}
	limiter := limiterOver(t, store, mustLimit(t, stint.Spec{Algorithm: stint.FixedWindow, Limit: 10, Window: time.Hour}))
	r, err := limiter.Reserve(t.Context(), "k", 4)
	if err != nil || !r.Decision.Allowed {
		t.Fatal(r.Decision, err)
	}
	if d, err := limiter.AllowN(t.Context(), "k", 6); err != nil || !d.Allowed { // units that other callers use
		t.Fatal(d, err)
	}
	return limiter, store, r
}

func remaining(t *testing.T, l *stint.Limiter) int64 {
	t.Helper()
	d, err := l.Peek(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	return d.Remaining
}

func TestUnitsGoBackOnceOverAllCopies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter, store, r := reserved(t)
		copied := r
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				other := copied
				for _, one := range []*stint.Reservation{&r, &copied, &other} {
					if err := one.Cancel(t.Context()); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		if n := remaining(t, limiter); n != 4 || store.refunds != 1 {
			t.Errorf("%d remain after %d refunds; want the 4 of one", n, store.refunds)
		}
	})
}

func TestCancelIsRepeatedOnlyWhenNothingWasSent(t *testing.T) {
	for name, c := range map[string]struct {
		err     error
		refunds int
		want    int64
	}{
		"invalid":   {&stint.Error{Code: stint.CodeInvalid, Problem: "wrong"}, 2, 4},
		"exhausted": {&stint.Error{Code: stint.CodeExhausted, Problem: "full"}, 1, 0},
		"timeout":   {&stint.Error{Code: stint.CodeTimeout, Problem: "slow"}, 1, 0},
		"canceled":  {&stint.Error{Code: stint.CodeCanceled, Problem: "left"}, 1, 0},
		"down":      {&stint.Error{Code: stint.CodeUnavailable, Problem: "down"}, 1, 0},
		"internal":  {&stint.Error{Problem: "bug"}, 1, 0},
		"unknown":   {errors.New("unknown"), 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				limiter, store, r := reserved(t, c.err)
				copied := r
				if err := r.Cancel(t.Context()); !errors.Is(err, c.err) {
					t.Errorf("first: %v; want %v", err, c.err)
				}
				for range 2 {
					if err := copied.Cancel(t.Context()); err != nil {
						t.Errorf("again: %v", err)
					}
				}
				if n := remaining(t, limiter); n != c.want || store.refunds != c.refunds {
					t.Errorf("%d remain after %d refunds; want %d after %d", n, store.refunds, c.want, c.refunds)
				}
			})
		})
	}
}

// A call whose context has ended sends nothing. A call whose context ends while
// another call is in flight sends nothing either.
func TestCancelUnderAnEndedContextCanBeRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter, store, r := reserved(t)
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if err := r.Cancel(ended); codeOf(err) != stint.CodeCanceled || store.refunds != 0 {
			t.Errorf("%v after %d refunds; want canceled before any", err, store.refunds)
		}
		go func() { _ = r.Cancel(t.Context()) }()
		synctest.Wait()
		brief, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if err := r.Cancel(brief); codeOf(err) != stint.CodeCanceled {
			t.Errorf("beside one under way: %v; want canceled", err)
		}
		if err := r.Cancel(t.Context()); err != nil {
			t.Error(err)
		}
		if n := remaining(t, limiter); n != 4 || store.refunds != 1 {
			t.Errorf("%d remain after %d refunds; want 4 after one", n, store.refunds)
		}
	})
}

func TestNothingIsGivenBackOfADenial(t *testing.T) {
	limiter := newLimiter(t, stint.PerHour(3))
	r, err := limiter.Reserve(t.Context(), "k", 4)
	if err != nil || r.Decision.Allowed {
		t.Fatal(r.Decision, err)
	}
	r.Decision.Allowed = true
	zero := stint.Reservation{Decision: stint.Decision{Allowed: true}}
	if err := errors.Join(r.Cancel(t.Context()), zero.Cancel(t.Context())); err != nil {
		t.Error(err)
	}
}
