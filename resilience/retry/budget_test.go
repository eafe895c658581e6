package retry

import (
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stintdev/stint/resilience/retrybudget"
)

// While a server fails, all callers that share a budget send it a tenth more requests
// than without retries, and not one request beyond.
func TestSharedBudgetIsExact(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, err := retrybudget.New(retrybudget.Options{PerSecond: retrybudget.NoShare, Window: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		var sent atomic.Int64
		tr := &Transport{Policy: mustNew(t, Options{Attempts: 10, Budget: b}), Base: trip(func(*http.Request) (*http.Response, error) {
			sent.Add(1)
			return answer(503), nil
		})}
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				for range 20 {
					if resp, err := tr.RoundTrip(request(t.Context(), t, "GET", nil)); err != nil || resp.StatusCode != 503 {
						t.Errorf("%v, %v", resp, err)
					}
				}
			})
		}
		wg.Wait()
		if n := sent.Load(); n != 1100 {
			t.Errorf("1000 requests were sent %d times, want 1100", n)
		}
		if u := b.Usage(); u != (retrybudget.Usage{Requests: 1000, Retries: 100}) {
			t.Errorf("%+v", u)
		}
	})
}
