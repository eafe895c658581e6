package testcode

import (
	"crypto/rand"
	"os"
	"testing"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/redistest"
	"github.com/stintdev/stint/redisstore"
)

// openRedis returns a store in the Redis server at REDIS_ADDR, with keys of its own.
func openRedis(t *testing.T, clock func() time.Time) stint.Store {
	t.Helper()
	addr := os.Getenv("REDIS_ADDR")
	if addr == "" {
		t.Skip("REDIS_ADDR is not set")
	}
	store, err := redisstore.New(redisstore.Options{
		Addrs:   []string{addr},
		Prefix:  "test-" + rand.Text(),
		Clock:   clock,
		KeepFor: time.Minute,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	if err := store.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	return store
}

func TestLimitInRedis(t *testing.T) {
	t.Setenv("REDIS_ADDR", redistest.Server(t).Addr())
	testLimitInRedis(t)
}

func testLimitInRedis(t *testing.T) {
	clock := newFakeClock()
	limiter := newLimiter(t, openRedis(t, clock.Now), "1/h")

	for _, want := range []bool{true, false} {
		d, err := limiter.Allow(t.Context(), "ann")
		if err != nil || d.Allowed != want {
			t.Errorf("%+v, %v, want %v", d, err, want)
		}
	}
	clock.Advance(time.Hour)
	if d, err := limiter.Allow(t.Context(), "ann"); err != nil || !d.Allowed {
		t.Errorf("an hour later: %+v, %v", d, err)
	}
}
