package client

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/resilience/breaker"
	"github.com/stintdev/stint/resilience/deadline"
)

// request is one call with its attempts, which are made one after the other.
type request struct {
	options *Options
	below   http.RoundTripper

	attempt int            // number of the attempt, from 1
	before  error          // the error of the attempt before; nil before the first
	call    *Call          // of the last attempt that was let through
	resp    *http.Response // the last response
}

var errNoResponse = errors.New("client: Base returned neither a response nor an error")

// RoundTrip makes one attempt.
func (c *request) RoundTrip(req *http.Request) (*http.Response, error) {
	c.attempt++
	call, err := c.options.Begin(req.Context(), c.options.Key(req))
	if err != nil {
		closeBody(req)
		return nil, c.refused(req.Context(), err)
	}
	c.call = call
	resp, err := c.send(req)
	c.before = err
	if err == nil {
		c.before = &StatusError{resp.StatusCode}
	}
	return untilOver(req.Context(), resp, err, call.end())
}

func (c *request) send(req *http.Request) (*http.Response, error) {
	ctx := c.options.ObserveStart(req.Context(), stint.Event{Kind: stint.EventAttempt, Attempt: c.attempt})
	if ctx != req.Context() {
		req = req.WithContext(ctx)
	}
	start := time.Now()
	resp, err := c.below.RoundTrip(req)
	took := time.Since(start)
	if resp == nil && err == nil {
		err = errNoResponse
	}
	c.resp = resp
	c.reportOutcome(ctx, resp, err)
	if errors.Is(err, deadline.ErrRefused) {
		return nil, c.refused(ctx, &RefusedError{Name: c.options.Name, Part: PartDeadline, Err: err})
	}
	if o := c.options.Retry; c.attempt == 1 && o != nil && o.Budget != nil {
		o.Budget.Request()
	}
	c.options.Observe(ctx, stint.Event{Kind: stint.EventAttempt, Attempt: c.attempt, Took: took, Result: result(ctx, resp, err), Err: err})
	return resp, err
}

// reportOutcome reports the outcome of an attempt to the breaker.
func (c *request) reportOutcome(ctx context.Context, resp *http.Response, err error) {
	if gaveUp(ctx, err) || errors.Is(err, deadline.ErrRefused) {
		c.call.Answer(breaker.Ignored)
		return
	}
	c.call.Answer(c.options.Outcome(resp, err))
}

// refused adds the error of the attempt before to a refusal. An error of the context is
// returned unchanged. In both cases nothing was sent, so a retry that the budget granted
// is returned to it.
func (c *request) refused(ctx context.Context, err error) error {
	if o := c.options.Retry; c.attempt > 1 && o.Budget != nil {
		o.Budget.Refund()
	}
	if r := (*RefusedError)(nil); errors.As(err, &r) {
		r.Before = c.before
		c.options.Observe(ctx, stint.Event{Kind: stint.EventRefusal, Attempt: c.attempt, Result: r.Part.String(), Err: r})
	}
	return err
}

// abandon releases everything that an attempt holds, when something panics.
func (c *request) abandon() {
	if c.call != nil {
		c.call.Failure()
	}
	if c.resp != nil && c.resp.Body != nil {
		_ = c.resp.Body.Close()
	}
}

func closeBody(req *http.Request) {
	if req.Body != nil {
		_ = req.Body.Close()
	}
}
