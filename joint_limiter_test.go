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
			"reserve": func() error { _, err := c.j.Reserve(t.Context(), c.n, c.keys...); return err },
		}
		for name, call := range calls {
			if err := call(); err == nil || !strings.Contains(err.Error(), c.about) {
				t.Errorf("%s: %v; want %s", name, err, c.about)
			}
		}
	}
	if d, _ := user.Peek(t.Context(), "ann"); d.Remaining != 3 || (*stint.JointLimiter)(nil).Limits() != nil {
		t.Error("a refused request was charged")
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
