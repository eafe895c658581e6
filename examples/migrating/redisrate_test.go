package migrating

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/redistest"
	"github.com/stintdev/stint/redisstore"
)

func newBefore(addr string) (limiter *redis_rate.Limiter, end func() error) {
	client := redis.NewClient(&redis.Options{Addr: addr})
	return redis_rate.NewLimiter(client), client.Close
}

func checkBefore(ctx context.Context, limiter *redis_rate.Limiter, user string) (allowed bool, wait time.Duration, err error) {
	result, err := limiter.Allow(ctx, user, redis_rate.PerMinute(100))
	if err != nil {
		return false, 0, err
	}
	return result.Allowed > 0, result.RetryAfter, nil
}

func newAfter(ctx context.Context, addr string) (limiter *stint.Limiter, end func() error, err error) {
	store, err := redisstore.New(redisstore.Options{Addrs: []string{addr}})
	if err != nil {
		return nil, nil, err
	}
	if err := store.Ping(ctx); err != nil { // waits for the connection
		return nil, nil, errors.Join(err, store.Close())
	}
	limiter, err = stint.NewLimiter(store, "api", stint.MustParseLimit("100/m"))
	return limiter, store.Close, err
}

func checkAfter(ctx context.Context, limiter *stint.Limiter, user string) (allowed bool, wait time.Duration, err error) {
	d, err := limiter.Allow(ctx, user)
	return d.Allowed, d.RetryAfter, err
}

func TestRedisRateAllowsTheSame(t *testing.T) {
	addr := redistest.Server(t).Addr()
	before, endBefore := newBefore(addr)
	defer endBefore()
	after, endAfter, err := newAfter(t.Context(), addr)
	if err != nil {
		t.Fatal(err)
	}
	defer endAfter()

	// 100 at once, then none for about 600 ms. A slow machine may fit one more in.
	was, is := 0, 0
	for range 110 {
		allowed, wait, err := checkBefore(t.Context(), before, "ann")
		if err != nil || allowed && wait != -1 {
			t.Fatalf("redis_rate answers %v, %v, %v", allowed, wait, err)
		}
		if allowed {
			was++
		}
		allowed, wait, err = checkAfter(t.Context(), after, "ann")
		if err != nil || allowed && wait != 0 || !allowed && wait <= 0 {
			t.Fatalf("Stint answers %v, %v, %v", allowed, wait, err)
		}
		if allowed {
			is++
		}
	}
	if was < 100 || is < 100 || was > 105 || is > 105 {
		t.Errorf("redis_rate allowed %d, Stint %d", was, is)
	}
}

// A cost above the burst can never be allowed: redis_rate says when to retry, Stint that
// no time is long enough.
func TestRedisRateRetriesForever(t *testing.T) {
	addr := redistest.Server(t).Addr()
	before, endBefore := newBefore(addr)
	defer endBefore()
	after, endAfter, err := newAfter(t.Context(), addr)
	if err != nil {
		t.Fatal(err)
	}
	defer endAfter()
	result, err := before.AllowN(t.Context(), "ann", redis_rate.PerMinute(100), 101)
	if err != nil || result.Allowed != 0 || result.RetryAfter < 500*time.Millisecond || result.RetryAfter > time.Second {
		t.Errorf("redis_rate answers %+v, %v", result, err)
	}
	if d, err := after.AllowN(t.Context(), "ann", 101); d.RetryAfter != stint.Never || err != nil {
		t.Errorf("Stint answers %+v, %v", d, err)
	}
}

// In redis_rate, limits of one key share a state, whatever their numbers.
func TestRedisRateLimitsOfOneKeyMix(t *testing.T) {
	before, end := newBefore(redistest.Server(t).Addr())
	defer end()
	if _, err := before.AllowN(t.Context(), "ann", redis_rate.PerHour(10), 10); err != nil {
		t.Fatal(err)
	}
	result, err := before.Allow(t.Context(), "ann", redis_rate.PerSecond(10))
	if err != nil || result.Allowed != 0 {
		t.Errorf("redis_rate answers %+v, %v", result, err)
	}
}
