package retry

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// The zero values behave like those with zero options.
func TestZeroValues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p Policy
		calls := 0
		if err := p.Do(t.Context(), func(context.Context) error { calls++; return errDown }); calls != 3 || err == nil {
			t.Errorf("%d calls, %v", calls, err)
		}
		if got := (Backoff{}).Wait(3, 0, func(int64) int64 { return 0 }); got != 0 {
			t.Errorf("the zero backoff waits %v", got)
		}
		calls = 0
		tr := Transport{Policy: &Policy{}, Base: roundTrip(func(*http.Request) (*http.Response, error) {
			calls++
			return &http.Response{StatusCode: http.StatusServiceUnavailable, Body: http.NoBody}, nil
		})}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://example.invalid", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		resp, err := tr.RoundTrip(req)
		if resp != nil {
			_ = resp.Body.Close()
		}
		if calls != 3 || err != nil {
			t.Errorf("%d requests in %v, %v", calls, time.Since(start), err)
		}
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
