package testcode

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/guard"
)

// flakyStore is a store that fails while the test says so.
type flakyStore struct {
	stint.Store

	failing atomic.Bool
}

var errFlaky = &stint.Error{Code: stint.CodeUnavailable, Problem: "the test made the store fail"}

func (s *flakyStore) Take(ctx context.Context, c stint.Claim) (stint.Decision, error) {
	if s.failing.Load() {
		return stint.Decision{}, errFlaky
	}
	return s.Store.Take(ctx, c)
}

func (s *flakyStore) TakeGroups(ctx context.Context, groups []stint.Group, out []stint.Decision) error {
	if s.failing.Load() {
		return errFlaky
	}
	return s.Store.TakeGroups(ctx, groups, out)
}

func TestLoginsAreClosedWhileTheStoreFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &flakyStore{Store: stint.NewMemory(stint.MemoryOptions{})}
		guarded, err := guard.New(store, guard.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer guarded.Close()
		handler := login(newLimiter(t, guarded, "100/m").With(stint.Policy{OnFailure: stint.FailClosed}))

		expect := func(status int) {
			t.Helper()
			w := httptest.NewRecorder()
			handler(w, httptest.NewRequest(http.MethodPost, "/?user=ann", nil))
			if w.Code != status {
				t.Errorf("status %d, want %d", w.Code, status)
			}
		}
		expect(http.StatusOK)
		store.failing.Store(true)
		for range 50 {
			expect(http.StatusServiceUnavailable)
		}
		store.failing.Store(false)
		time.Sleep(time.Second) // the guard probes at least every 250 ms
		expect(http.StatusOK)
	})
}
