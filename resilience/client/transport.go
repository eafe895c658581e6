package client

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/resilience/retry"
)

// Transport is an [http.RoundTripper] of several parts. Make one with [New]; a nil
// Transport and the zero value have no parts. It is safe for concurrent use.
type Transport struct {
	options Options
	policy  *retry.Policy     // nil: no retries
	below   http.RoundTripper // sends each attempt
	once    sync.Once         // sets the defaults of a zero transport
}

func (t *Transport) setDefaults() {
	if t.below == nil {
		t.options.setDefaults()
		t.below = t.options.sender()
	}
}

// RoundTrip makes one call with its retries.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if t == nil {
		t = &Transport{}
	}
	t.once.Do(t.setDefaults)
	start, c := time.Now(), &request{options: &t.options, below: t.below}
	ctx := t.options.ObserveStart(req.Context(), stint.Event{Kind: stint.EventRequest})
	if ctx != req.Context() {
		req = req.WithContext(ctx)
	}
	req, cancel := t.bound(req)
	returned := false
	defer func() {
		if !returned { // a part, Base or Classify panics
			c.abandon()
			if cancel != nil {
				cancel()
			}
		}
	}()
	resp, err := t.repeating(c).RoundTrip(req)
	t.options.Observe(ctx, stint.Event{Kind: stint.EventRequest, Attempt: c.attempt, Took: time.Since(start), Result: result(req.Context(), resp, err), Err: err})
	returned = true
	return atEnd(resp, err, cancel)
}

// bound returns a request that ends after Timeout, and its cancel function, which is nil
// without a Timeout.
func (t *Transport) bound(req *http.Request) (*http.Request, context.CancelFunc) {
	if t.options.Timeout == 0 {
		return req, nil
	}
	ctx, cancel := context.WithTimeout(req.Context(), t.options.Timeout)
	return req.WithContext(ctx), cancel
}

// repeating wraps a call with its retries.
func (t *Transport) repeating(c *request) http.RoundTripper {
	if t.policy == nil {
		return c
	}
	o := &t.options
	return &retry.Transport{Base: c, Policy: t.policy, Repeatable: o.Repeatable, Classify: o.classify}
}

// CloseIdleConnections closes the idle connections of Base, if Base supports it.
func (t *Transport) CloseIdleConnections() {
	if t == nil {
		t = &Transport{}
	}
	if c, ok := t.options.Base.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}
