package stint_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stintdev/stint"
)

// userAndTenant returns limiters of 3 units for users and 5 for tenants, and both as
// one.
func userAndTenant(t testing.TB, window time.Duration) (user, tenant *stint.Limiter, both *stint.JointLimiter) {
	t.Helper()
	store := stint.NewMemory(stint.MemoryOptions{})
	limiter := func(name string, n int64) *stint.Limiter {
		limit, err := stint.Spec{Limit: n, Window: window}.Compile()
		if err != nil {
			t.Fatal(err)
		}
		l, err := stint.NewLimiter(store, name, limit)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	user, tenant = limiter("user", 3), limiter("tenant", 5)
	both, err := stint.Join(user, tenant)
	if err != nil {
		t.Fatal(err)
	}
	return user, tenant, both
}

func TestJoinedLimitersChargeAllOrNone(t *testing.T) {
	user, tenant, both := userAndTenant(t, time.Hour)
	for i, c := range []struct {
		user          string
		n             int64
		allowed       bool
		limit         int64 // of the binding claim
		users, shared int64 // remaining after that
	}{
		{"ann", 2, true, 3, 1, 3},
		{"ann", 2, false, 3, 1, 3},
		{"bob", 3, true, 3, 0, 0},
		{"cat", 1, false, 5, 3, 0},
		{"bob", 0, true, 3, 0, 0},
	} {
		d, err := both.AllowN(t.Context(), c.n, c.user, "acme")
		if err != nil || d.Allowed != c.allowed || d.Limit != c.limit {
			t.Errorf("%d: %+v, %v; want %+v", i, d, err, c)
		}
		u, _ := user.Peek(t.Context(), c.user)
		s, _ := tenant.Peek(t.Context(), "acme")
		if u.Remaining != c.users || s.Remaining != c.shared {
			t.Errorf("%d: %d and %d remain; want %+v", i, u.Remaining, s.Remaining, c)
		}
	}
	if d, err := both.Peek(t.Context(), "dan", "other"); err != nil || d.Remaining != 3 || !d.Allowed {
		t.Errorf("peek: %+v, %v", d, err)
	}
	out := make([]stint.Decision, 2)
	binding, d, err := both.AllowEach(t.Context(), 1, 0, out, "dan", "acme")
	if err != nil || binding != 1 || d != out[1] || d.Allowed || out[0].Remaining != 3 || both.Limits()[binding].Rule() != "tenant" {
		t.Errorf("claim %d of %v, %+v of %+v, %v", binding, both.Limits(), d, out, err)
	}
}

func TestJointReservationIsRefundedUnderEveryKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // no time passes, so nothing refills
		user, tenant, both := userAndTenant(t, time.Hour)
		keys := []string{"ann", "acme"}
		r, err := both.Reserve(t.Context(), 3, keys...)
		if err != nil || !r.Decision.Allowed {
			t.Fatal(r.Decision, err)
		}
		keys[0] = "bob" // the reservation keeps its own keys
		if err := r.Cancel(t.Context()); err != nil {
			t.Fatal(err)
		}
		u, _ := user.Peek(t.Context(), "ann")
		s, _ := tenant.Peek(t.Context(), "acme")
		if u.Remaining != 3 || s.Remaining != 5 {
			t.Errorf("%d and %d remain", u.Remaining, s.Remaining)
		}
	})
}

func TestJointWaitersOfOneListOfKeysAreServedInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, _, both := userAndTenant(t, 3*time.Second) // a unit of the user each second
		start := time.Now()
		var mu sync.Mutex
		var served []string
		var wg sync.WaitGroup
		for i, n := range []int64{3, 2, 1, 1} {
			wg.Go(func() {
				if err := both.WaitN(t.Context(), n, "ann", "acme"); err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				served = append(served, fmt.Sprint(i, " ", time.Since(start)))
			})
			synctest.Wait()
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := both.Wait(ctx, "ann", "acme"); !errors.Is(err, stint.CodeTimeout) || time.Since(start) != 0 {
			t.Errorf("%v after %v; want a timeout at once, behind others", err, time.Since(start))
		}
		wg.Wait()
		if got := strings.Join(served, ", "); got != "0 0s, 1 2s, 2 3s, 3 4s" {
			t.Errorf("served %s", got)
		}
	})
}

// A leaky bucket among the limits delays all.
func TestJointWaitServesTheDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := stint.NewMemory(stint.MemoryOptions{})
		leaky, err := stint.NewLimiter(store, "leaky", mustLimit(t, stint.Spec{Algorithm: stint.LeakyBucket, Limit: 10, Window: time.Second, Queue: 9}))
		if err != nil {
			t.Fatal(err)
		}
		both, err := stint.Join(leaky, limiterOver(t, store, mustLimit(t, stint.PerHour(100))))
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		for range 4 {
			if err := both.Wait(t.Context(), "a", "b"); err != nil {
				t.Fatal(err)
			}
		}
		if time.Since(start) != 300*time.Millisecond {
			t.Errorf("after %v", time.Since(start))
		}
	})
}

func TestJointWaitWithin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		user, _, both := userAndTenant(t, 3*time.Second) // a unit of the user each second
		start := time.Now()
		brief, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		for _, c := range []struct {
			about   string
			brief   bool // under a deadline at 2 s
			n       int64
			maxWait time.Duration
			allowed bool
			err     error
			retry   time.Duration
			at      time.Duration // since start, when the call returns
		}{
			{"no wait is needed", false, 3, 0, true, nil, 0, 0},
			{"no wait is wanted", false, 1, -1, false, nil, time.Second, 0},
			{"too short", false, 2, 2*time.Second - 1, false, nil, 2 * time.Second, 0},
			{"long enough", false, 1, time.Second, true, nil, 0, time.Second},
			{"past the deadline", true, 2, time.Minute, false, stint.CodeTimeout, 2 * time.Second, time.Second},
			{"never", false, 4, time.Minute, false, nil, stint.Never, time.Second},
			{"nothing", false, 0, time.Minute, false, stint.CodeInvalid, 0, time.Second},
		} {
			ctx := t.Context()
			if c.brief {
				ctx = brief
			}
			d, err := both.WaitWithin(ctx, c.n, c.maxWait, "ann", "acme")
			if d.Allowed != c.allowed || !errors.Is(err, c.err) || d.RetryAfter != c.retry || time.Since(start) != c.at {
				t.Errorf("%s: %+v, %v after %v; want %+v", c.about, d, err, time.Since(start), c)
			}
		}
		if d, _ := user.Peek(t.Context(), "ann"); d.Remaining != 0 {
			t.Errorf("%d remain", d.Remaining)
		}
	})
}

// The policies of the limiters stay until With of the JointLimiter replaces them.
func TestJointPolicyIsOnEveryClaim(t *testing.T) {
	store := &noted{Store: stint.NewMemory(stint.MemoryOptions{})}
	open, closed := stint.Policy{Consistency: stint.Leased}, stint.Policy{OnFailure: stint.FailClosed, Replicas: 1}
	user := limiterOver(t, store, mustLimit(t, stint.PerHour(30))).With(open)
	tenant, err := limiterOver(t, store, mustLimit(t, stint.PerHour(90))).WithLocal(mustLimit(t, stint.PerHour(5)))
	if err != nil {
		t.Fatal(err)
	}
	both, err := stint.Join(user, tenant)
	if err != nil {
		t.Fatal(err)
	}
	for about, c := range map[string]struct {
		j    *stint.JointLimiter
		want [2]stint.Policy
	}{
		"the limiters' own": {both, [2]stint.Policy{open, {OnFailure: stint.FailLocal}}},
		"with a clock":      {both.WithClock(&stepping{time.Now()}), [2]stint.Policy{open, {OnFailure: stint.FailLocal}}},
		"replaced":          {both.With(closed), [2]stint.Policy{closed, closed}},
		"replaced twice":    {both.With(open).With(closed).WithClock(nil), [2]stint.Policy{closed, closed}},
	} {
		r, _ := c.j.Reserve(t.Context(), 1, "ann", "acme")
		for name, call := range map[string]func(){
			"allow":       func() { _, _ = c.j.Allow(t.Context(), "ann", "acme") },
			"allow each":  func() { _, _, _ = c.j.AllowEach(t.Context(), 1, 0, make([]stint.Decision, 2), "ann", "acme") },
			"wait":        func() { _ = c.j.Wait(t.Context(), "ann", "acme") },
			"wait within": func() { _, _ = c.j.WaitWithin(t.Context(), 1, time.Second, "ann", "acme") },
			"not waiting": func() { _, _ = c.j.WaitWithin(t.Context(), 1, 0, "ann", "acme") },
			"reserve":     func() { _, _ = c.j.Reserve(t.Context(), 1, "ann", "acme") },
			"cancel":      func() { _ = r.Cancel(t.Context()) },
		} {
			store.claims = nil
			call()
			if len(store.claims) != 2 || store.claims[0].Policy != c.want[0] || store.claims[1].Policy != c.want[1] ||
				(store.claims[1].Local != nil) != (c.want[1].OnFailure == stint.FailLocal) {
				t.Errorf("%s, %s: %+v; want %+v", about, name, store.claims, c.want)
			}
		}
	}
}

// The copies of a JointLimiter report to the observers of its limiters, and wait as it
// does.
func TestJointCopiesKeepTheObserver(t *testing.T) {
	s, clock := &seen{}, &stepping{time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)}
	store := stint.NewMemory(stint.MemoryOptions{Clock: clock.Now})
	account := limiterOver(t, store, mustLimit(t, stint.Spec{Limit: 10, Window: time.Minute, Capacity: 1})).WithObserver(s)
	both, err := stint.Join(account, account)
	if err != nil {
		t.Fatal(err)
	}
	start := clock.now
	for _, j := range []*stint.JointLimiter{both.WithClock(clock), both.WithClock(clock).With(stint.Policy{Replicas: 1})} {
		_ = j.Wait(t.Context(), "a", "b")
		_, _ = j.WaitWithin(t.Context(), 1, time.Minute, "a", "b")
		_, _ = j.WaitWithin(t.Context(), 1, 0, "a", "b")
		s.want(t, "decision test+test wait allowed", "decision test+test wait allowed", "decision test+test take denied by token_bucket:1m")
	}
	if waited := clock.now.Sub(start); waited != 18*time.Second {
		t.Errorf("waited %v", waited)
	}
}

func TestJointWaitersOfCopiesFormOneQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, _, both := userAndTenant(t, 3*time.Second)
		strict, start := both.With(stint.Policy{OnFailure: stint.FailClosed}), time.Now()
		_, _ = both.AllowN(t.Context(), 3, "ann", "acme")
		var wg sync.WaitGroup
		for i, j := range []*stint.JointLimiter{both, strict, both} {
			wg.Go(func() {
				if err := j.WaitN(t.Context(), int64(3-i), "ann", "acme"); err != nil || time.Since(start) != []time.Duration{3 * time.Second, 5 * time.Second, 6 * time.Second}[i] {
					t.Errorf("waiter %d: %v after %v", i, err, time.Since(start))
				}
			})
			synctest.Wait()
		}
		wg.Wait()
	})
}

// Every wait follows the clock: no time passes outside of it.
func TestJointWaitFollowsTheClock(t *testing.T) {
	clock := &stepping{time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)}
	start := clock.now
	store := stint.NewMemory(stint.MemoryOptions{Clock: clock.Now})
	limit := mustLimit(t, stint.Spec{Limit: 10, Window: time.Minute, Capacity: 1})
	account := limiterOver(t, store, limit)
	own, err := stint.Join(account.WithClock(clock), account.WithClock(clock))
	if err != nil {
		t.Fatal(err)
	}
	later, err := stint.Join(account, account)
	if err != nil {
		t.Fatal(err)
	}
	for i, j := range []*stint.JointLimiter{own, later.WithClock(clock), own.With(stint.Policy{Replicas: 1})} {
		keys := []string{fmt.Sprint("a", i), fmt.Sprint("b", i)}
		for range 2 {
			if err := j.Wait(t.Context(), keys...); err != nil {
				t.Fatal(err)
			}
		}
		if d, err := j.WaitWithin(t.Context(), 1, 6*time.Second, keys...); err != nil || !d.Allowed {
			t.Errorf("within 6s: %+v, %v", d, err)
		}
		if waited := clock.now.Sub(start); waited != time.Duration(i+1)*12*time.Second {
			t.Errorf("waited %v; want %v", waited, time.Duration(i+1)*12*time.Second)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if err := j.Wait(ctx, keys...); !errors.Is(err, stint.CodeTimeout) {
			t.Errorf("%v; want a timeout at once", err)
		}
	}
}

func TestJoinSaysWhatIsWrong(t *testing.T) {
	user, tenant, both := userAndTenant(t, time.Hour)
	for about, limiters := range map[string][]*stint.Limiter{
		"there are none":       nil,
		"nil or a zero value":  {user, nil},
		"a zero value":         {{}, user},
		"use different stores": {user, newLimiter(t, stint.PerHour(1))},
		"use different clocks": {user, tenant.WithClock(&stepping{})},
	} {
		if j, err := stint.Join(limiters...); j != nil || err == nil || !strings.Contains(err.Error(), about) {
			t.Errorf("%v, %v; want an error that says %s", j, err, about)
		}
	}
	clock := &stepping{time.Now()}
	if _, err := stint.Join(user.WithClock(clock), tenant.WithClock(clock)); err != nil {
		t.Error(err)
	}

	var zero stint.JointLimiter
	for _, c := range []struct {
		about string
		j     *stint.JointLimiter
		n     int64
		keys  []string
	}{
		{"keys: there are 1 for 2 limiters", both, 1, []string{"ann"}},
		{"keys: there are 3 for 2 limiters", both, 1, []string{"ann", "acme", "x"}},
		{"keys: there are 0 for 2 limiters", both, 1, nil},
		{"key: is empty", both, 1, []string{"ann", ""}},
		{"cost: ", both, -1, []string{"ann", "acme"}},
		{"joint limiter is nil", nil, 1, nil},
		{"joint limiter is nil", &zero, 1, nil},
	} {
		calls := map[string]func() error{
			"allow": func() error { _, err := c.j.AllowN(t.Context(), c.n, c.keys...); return err },
			"each": func() error {
				_, _, err := c.j.AllowEach(t.Context(), c.n, 0, make([]stint.Decision, 2), c.keys...)
				return err
			},
			"wait":    func() error { return c.j.WaitN(t.Context(), c.n, c.keys...) },
			"within":  func() error { _, err := c.j.WaitWithin(t.Context(), c.n, time.Second, c.keys...); return err },
			"at once": func() error { _, err := c.j.WaitWithin(t.Context(), c.n, 0, c.keys...); return err },
			"reserve": func() error { _, err := c.j.Reserve(t.Context(), c.n, c.keys...); return err },
		}
		for name, call := range calls {
			if err := call(); err == nil || !strings.Contains(err.Error(), c.about) {
				t.Errorf("%s: %v; want %s", name, err, c.about)
			}
		}
	}
	if d, _ := user.Peek(t.Context(), "ann"); d.Remaining != 3 {
		t.Error("a refused request was charged")
	}
	for _, j := range []*stint.JointLimiter{nil, &zero} {
		if j.Limits() != nil || j.With(stint.Policy{Replicas: 1}) != j || j.WithClock(nil) != j {
			t.Error("it has limits, or a copy differs")
		}
	}
}

// The two accounts of a transfer are of one limiter, and must differ.
func TestLimiterJoinedWithItself(t *testing.T) {
	account := newLimiter(t, stint.PerHour(2))
	transfer, err := stint.Join(account, account)
	if err != nil {
		t.Fatal(err)
	}
	if d, err := transfer.Allow(t.Context(), "a", "b"); err != nil || !d.Allowed {
		t.Error(d, err)
	}
	if _, err := transfer.Allow(t.Context(), "a", "a"); !errors.Is(err, stint.CodeInvalid) {
		t.Error(err)
	}
	if d, _ := account.Peek(t.Context(), "a"); d.Remaining != 1 {
		t.Error(d)
	}
}

func TestJointAllowAllocatesNothing(t *testing.T) {
	_, _, both := userAndTenant(t, time.Hour)
	if n := testing.AllocsPerRun(1000, func() { _, _ = both.Allow(context.Background(), "ann", "acme") }); n != 0 {
		t.Errorf("a check allocates %v times", n)
	}
}

func BenchmarkJointAllow(b *testing.B) {
	_, _, both := userAndTenant(b, time.Microsecond*1000)
	ctx := context.Background()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := both.Allow(ctx, "0123456789abcdef01234567", "acme"); err != nil {
			b.Fatal(err)
		}
	}
}
