package testcode

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/stintdev/stint"
)

// fakeClock is a clock that moves when the test says so or when somebody sleeps.
type fakeClock struct {
	mu  sync.Mutex
	now time.Time
}

func newFakeClock() *fakeClock {
	return &fakeClock{now: time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)}
}

func (c *fakeClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *fakeClock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// Sleep makes fakeClock a stint.Clock, for Limiter.WithClock.
func (c *fakeClock) Sleep(ctx context.Context, d time.Duration) error {
	c.Advance(max(0, d))
	return ctx.Err()
}

func TestThirdLoginIsDenied(t *testing.T) {
	clock := newFakeClock()
	store := stint.NewMemory(stint.MemoryOptions{Clock: clock.Now})
	handler := login(newLimiter(t, store, "2/m"))

	for i, want := range []int{200, 200, 429} {
		w := httptest.NewRecorder()
		handler(w, httptest.NewRequest(http.MethodPost, "/?user=ann", nil))
		if w.Code != want {
			t.Errorf("login %d: status %d, want %d", i+1, w.Code, want)
		}
	}
	clock.Advance(30 * time.Second) // one of two a minute
	w := httptest.NewRecorder()
	handler(w, httptest.NewRequest(http.MethodPost, "/?user=ann", nil))
	if w.Code != http.StatusOK {
		t.Errorf("after the wait: status %d", w.Code)
	}
}

func TestMailsOnAClock(t *testing.T) {
	clock := newFakeClock()
	store := stint.NewMemory(stint.MemoryOptions{Clock: clock.Now})
	m := &mailer{limiter: newLimiter(t, store, "100/h").WithClock(clock)}

	start := clock.Now()
	if err := m.send(t.Context(), 200); err != nil {
		t.Fatal(err)
	}
	if took := clock.Now().Sub(start); took != time.Hour {
		t.Errorf("200 mails took %v", took)
	}
}
