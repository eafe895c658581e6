package testcode

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/guard"
	"github.com/stintdev/stint/lease"
)

func newLimiter(t *testing.T, store stint.Store, limit string) *stint.Limiter {
	t.Helper()
	limiter, err := stint.NewLimiter(store, "test", stint.MustParseLimit(limit))
	if err != nil {
		t.Fatal(err)
	}
	return limiter
}

func TestMailsTakeAnHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := stint.NewMemory(stint.MemoryOptions{}) // in the bubble
		m := &mailer{limiter: newLimiter(t, store, "100/h")}

		start := time.Now()
		if err := m.send(t.Context(), 200); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took != time.Hour {
			t.Errorf("200 mails took %v", took)
		}
	})
}

func TestMailerGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := stint.NewMemory(stint.MemoryOptions{})
		m := &mailer{limiter: newLimiter(t, store, "100/h")}

		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Minute)
		defer cancel()
		err := m.send(ctx, 200)
		if !errors.Is(err, context.DeadlineExceeded) || m.sent != 150 {
			t.Errorf("%d mails were sent: %v", m.sent, err)
		}
	})
}

// A store that was used before the bubble remembers the real time. The time of a bubble
// begins in the year 2000, so it is always in the past of such a store.
func TestStoreFromOutside(t *testing.T) {
	store := stint.NewMemory(stint.MemoryOptions{})
	limiter := newLimiter(t, store, "1/h")
	if d, err := limiter.Allow(t.Context(), "ann"); !d.Allowed || err != nil {
		t.Fatal(d, err)
	}
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(2 * time.Hour)
		d, err := limiter.Allow(t.Context(), "ann")
		if d.Allowed || d.RetryAfter < 20*365*24*time.Hour || err != nil {
			t.Errorf("the store from outside answers %+v, %v", d, err)
		}
	})
}

// Even a store that was not used before the bubble may be a microsecond behind it.
func TestUnusedStoreFromOutside(t *testing.T) {
	store := stint.NewMemory(stint.MemoryOptions{})
	synctest.Test(t, func(t *testing.T) {
		d, err := newLimiter(t, store, "1/h").Allow(t.Context(), "ann")
		if behind := time.Now().UnixMicro() - d.At; behind < 0 || behind > 1 || err != nil {
			t.Errorf("the store from outside is %d µs behind, %v", behind, err)
		}
	})
}

// Guards and leases have goroutines, so they are made and closed in the bubble.
func TestLayersInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		guarded, err := guard.New(stint.NewMemory(stint.MemoryOptions{}), guard.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer guarded.Close()
		store, err := lease.New(guarded, lease.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()

		limiter := newLimiter(t, store, "100/h").With(stint.Policy{Consistency: stint.Leased})
		for range 100 {
			if d, err := limiter.Allow(t.Context(), "ann"); !d.Allowed || err != nil {
				t.Fatal(d, err)
			}
		}
		if d, err := limiter.Allow(t.Context(), "ann"); d.Allowed || err != nil {
			t.Error(d, err)
		}
	})
}
