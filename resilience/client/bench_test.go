package client

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stintdev/stint/resilience/breaker"
	"github.com/stintdev/stint/resilience/bulkhead"
	"github.com/stintdev/stint/resilience/retry"
	"github.com/stintdev/stint/resilience/retrybudget"
)

// BenchmarkTransport measures a call that no part delays.
func BenchmarkTransport(b *testing.B) {
	base := trip(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 200, Body: http.NoBody}, nil
	})
	req := httptest.NewRequestWithContext(b.Context(), http.MethodGet, "http://orders.example/", nil)
	for name, o := range map[string]Options{
		"none": {},
		"all": {
			Chain:   Chain{Bulkhead: must(bulkhead.New(bulkhead.Options{Limit: 9})), Breaker: must(breaker.New(breaker.Options{}))},
			Timeout: time.Minute, Retry: &retry.Options{Budget: must(retrybudget.New(retrybudget.Options{}))},
		},
	} {
		b.Run(name, func(b *testing.B) {
			o.Base = base
			t := must(New(o))
			b.ReportAllocs()
			for b.Loop() {
				resp, err := t.RoundTrip(req)
				if err != nil {
					b.Fatal(err)
				}
				resp.Body.Close()
			}
		})
	}
}
