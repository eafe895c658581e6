package client

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/resilience/breaker"
	"github.com/stintdev/stint/resilience/bulkhead"
	"github.com/stintdev/stint/resilience/retry"
)

// The zero values have no parts, and the parts may be zero values themselves.
func TestZeroValues(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	for name, tr := range map[string]*Transport{
		"a transport":     {},
		"a breaker":       must(New(Options{Chain: Chain{Breaker: &breaker.Breaker{}}})),
		"options":         must(New(Options{})),
		"options of them": must(New(Options{Retry: &retry.Options{}})),
	} {
		tr.CloseIdleConnections()
		req := must(http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, http.NoBody))
		resp, err := tr.RoundTrip(req)
		if err != nil || resp.StatusCode != http.StatusNotFound {
			t.Fatalf("%s: %v, %v", name, resp, err)
		}
		_ = resp.Body.Close()
	}
	call, err := (&Chain{}).Begin(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	call.Success()
	call.Release()
	(&Call{}).Release()
	for _, p := range []*Chain{nil, {}} {
		if ctx := p.ObserveStart(t.Context(), stint.Event{}); ctx != t.Context() {
			t.Error("another context without an observer")
		}
		p.Observe(t.Context(), stint.Event{})
		if policy, err := p.RetryPolicy(retry.Options{}); err != nil {
			t.Error(err)
		} else if err := policy.Do(t.Context(), func(context.Context) error { return nil }); err != nil {
			t.Error(err)
		}
	}
	var refused *RefusedError
	if _, err := (&Chain{Bulkhead: &bulkhead.Bulkhead{}}).Begin(t.Context(), ""); !errors.As(err, &refused) {
		t.Errorf("a bulkhead: %v", err)
	}
}

// An ignored attempt, whether Outcome returned Ignored or its caller canceled, is not
// counted by the breaker, and as a probe it makes room for another.
func TestAttemptsThatSayNothing(t *testing.T) {
	for name, o := range map[string]Options{
		"canceled below": {Base: trip(func(*http.Request) (*http.Response, error) { return nil, context.Canceled })},
		"by outcome": {
			Base:    answers(500),
			Outcome: func(*http.Response, error) breaker.Outcome { return breaker.Ignored },
		},
	} {
		b := must(breaker.New(breaker.Options{ConsecutiveFailures: 1, OpenFor: time.Nanosecond}))
		c, _ := b.Begin()
		c.Failure()
		o.Breaker = b
		tr := must(New(o))
		for range 3 {
			resp, err := tr.RoundTrip(must(http.NewRequestWithContext(t.Context(), http.MethodGet, "http://example.invalid", http.NoBody)))
			if err == nil {
				_ = resp.Body.Close()
			}
			if errors.As(err, new(*RefusedError)) || b.State() != breaker.HalfOpen {
				t.Fatalf("%s: %v, %v", name, err, b.State())
			}
		}
	}
}
