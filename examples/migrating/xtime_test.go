package migrating

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"

	"github.com/stintdev/stint"
)

// usersBefore allows each user ten requests a second, with bursts of twenty.
type usersBefore struct {
	mu       sync.Mutex
	limiters map[string]*rate.Limiter
}

func (u *usersBefore) allow(user string) bool {
	u.mu.Lock()
	limiter, ok := u.limiters[user]
	if !ok {
		limiter = rate.NewLimiter(10, 20)
		u.limiters[user] = limiter
	}
	u.mu.Unlock()
	return limiter.Allow()
}

// usersAfter allows each user ten requests a second, with bursts of twenty.
func usersAfter() (*stint.Limiter, error) {
	limit, err := stint.Spec{Limit: 10, Window: time.Second, Capacity: 20}.Compile()
	if err != nil {
		return nil, err
	}
	return stint.NewLimiter(stint.NewMemory(stint.MemoryOptions{}), "users", limit)
}

func allowAfter(ctx context.Context, users *stint.Limiter, user string) (bool, error) {
	d, err := users.Allow(ctx, user)
	return d.Allowed, err
}

func mustUsersAfter(t *testing.T) *stint.Limiter {
	t.Helper()
	users, err := usersAfter()
	if err != nil {
		t.Fatal(err)
	}
	return users
}

func TestXTimeAllowsTheSame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before := &usersBefore{limiters: map[string]*rate.Limiter{}}
		after := mustUsersAfter(t)
		for range 100 {
			was := before.allow("ann")
			is, err := allowAfter(t.Context(), after, "ann")
			if was != is || err != nil {
				t.Fatalf("x/time says %v, Stint %v, %v", was, is, err)
			}
			time.Sleep(30 * time.Millisecond)
		}
	})
}

// A reservation of x/time goes into debt. A token bucket of Stint denies, and a leaky
// bucket delays.
func TestXTimeReservesTheFuture(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before := rate.NewLimiter(10, 1)
		before.Allow()
		if r := before.Reserve(); !r.OK() || r.Delay() != 100*time.Millisecond {
			t.Errorf("x/time reserves in %v", r.Delay())
		}
		bucket, err := stint.NewLimiter(stint.NewMemory(stint.MemoryOptions{}), "bucket", limitOf(t, stint.Spec{Limit: 10, Window: time.Second, Capacity: 1}))
		if err != nil {
			t.Fatal(err)
		}
		leaky, err := stint.NewLimiter(stint.NewMemory(stint.MemoryOptions{}), "leaky", limitOf(t, stint.Spec{Algorithm: stint.LeakyBucket, Limit: 10, Window: time.Second, Queue: 20}))
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range []*stint.Limiter{bucket, leaky} {
			if r, err := l.Reserve(t.Context(), "ann", 1); !r.Decision.Allowed || err != nil {
				t.Fatal(r, err)
			}
		}
		if r, err := bucket.Reserve(t.Context(), "ann", 1); r.Decision.Allowed || r.Decision.RetryAfter != 100*time.Millisecond || err != nil {
			t.Errorf("the bucket answers %+v, %v", r.Decision, err)
		}
		if r, err := leaky.Reserve(t.Context(), "ann", 1); !r.Decision.Allowed || r.Decision.Delay != 100*time.Millisecond || err != nil {
			t.Errorf("the leaky bucket answers %+v, %v", r.Decision, err)
		}
	})
}

// Both refuse at once a wait that would pass the deadline. Only Stint's error says so to
// errors.Is.
func TestXTimeWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		before := rate.NewLimiter(10, 20)
		after := mustUsersAfter(t)
		before.AllowN(time.Now(), 20)
		if d, err := after.AllowN(ctx, "ann", 20); !d.Allowed || err != nil {
			t.Fatal(d, err)
		}
		start := time.Now()
		if err := before.Wait(ctx); err == nil || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("x/time's error is %v", err)
		}
		if err := after.Wait(ctx, "ann"); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, stint.CodeTimeout) {
			t.Errorf("Stint's error is %v", err)
		}
		if time.Since(start) != 0 {
			t.Errorf("they waited %v", time.Since(start))
		}
	})
}

func TestXTimeZeroValue(t *testing.T) {
	if new(rate.Limiter).Allow() {
		t.Error("the zero value of x/time allows")
	}
	if _, err := new(stint.Limiter).Allow(t.Context(), "ann"); err == nil {
		t.Error("the zero value of Stint gives no error")
	}
}

// A limit of another number is another limiter of the same name: the tokens stay.
func TestXTimeSetLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := stint.NewMemory(stint.MemoryOptions{})
		for _, c := range []struct {
			limit     stint.Spec
			remaining int64
		}{{stint.Spec{Limit: 10, Window: time.Second, Capacity: 20}, 19}, {stint.Spec{Limit: 5, Window: time.Second, Capacity: 20}, 18}} {
			limiter, err := stint.NewLimiter(store, "users", limitOf(t, c.limit))
			if err != nil {
				t.Fatal(err)
			}
			if d, err := limiter.Allow(t.Context(), "ann"); d.Remaining != c.remaining || err != nil {
				t.Errorf("%d remain, %v, want %d", d.Remaining, err, c.remaining)
			}
		}
	})
}

func limitOf(t *testing.T, spec stint.Spec) stint.Limit {
	t.Helper()
	limit, err := spec.Compile()
	if err != nil {
		t.Fatal(err)
	}
	return limit
}
