package client

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/stintdev/stint/resilience/deadline"
)

// call is one call with its attempts, which are made one after the other.
type call struct {
	options *Options
	below   http.RoundTripper

	attempt int            // number of the attempt, from 1
	before  error          // the error of the attempt before; nil before the first
	pass    *Pass          // of the last attempt that was let through
	resp    *http.Response // the last response
}

var errNoResponse = errors.New("client: Base returned neither a response nor an error")

// RoundTrip makes one attempt.
func (c *call) RoundTrip(req *http.Request) (*http.Response, error) {
	c.attempt++
	pass, err := c.options.Enter(req.Context(), c.options.Key(req))
	if err != nil {
		closeBody(req)
		return nil, c.refused(err)
	}
	c.pass = pass
	resp, err := c.send(req)
	c.before = err
	if err == nil {
		c.before = &StatusError{resp.StatusCode}
	}
	return untilOver(req.Context(), resp, err, pass.end())
}

func (c *call) send(req *http.Request) (*http.Response, error) {
	start := time.Now()
	resp, err := c.below.RoundTrip(req)
	took := time.Since(start)
	if resp == nil && err == nil {
		err = errNoResponse
	}
	c.resp = resp
	c.reportOutcome(req.Context(), resp, err)
	if late := (*deadline.RefusedError)(nil); errors.As(err, &late) {
		return nil, c.refused(&RefusedError{Name: c.options.Name, Part: Deadline, Err: err})
	}
	if o := c.options.Retry; c.attempt == 1 && o != nil && o.Budget != nil {
		o.Budget.Request()
	}
	c.options.Observe(Event{Kind: Sent, Attempt: c.attempt, Took: took, Result: result(req.Context(), resp, err), Err: err})
	return resp, err
}

// reportOutcome reports the outcome of an attempt to the breaker.
func (c *call) reportOutcome(ctx context.Context, resp *http.Response, err error) {
	var late *deadline.RefusedError
	if gaveUp(ctx, err) || errors.As(err, &late) {
		c.pass.Cancel()
		return
	}
	c.pass.Answer(c.options.Outcome(resp, err))
}

// refused adds the error of the attempt before to a refusal. An error of the context is
// returned unchanged. In both cases nothing was sent, so a retry that the budget granted
// is returned to it.
func (c *call) refused(err error) error {
	if o := c.options.Retry; c.attempt > 1 && o.Budget != nil {
		o.Budget.Return()
	}
	if r := (*RefusedError)(nil); errors.As(err, &r) {
		r.Before = c.before
		c.options.Observe(Event{Kind: Refused, Attempt: c.attempt, Part: r.Part, Err: r})
	}
	return err
}

// abandon releases everything that an attempt holds, when something panics.
func (c *call) abandon() {
	if c.pass != nil {
		c.pass.Failure()
		c.pass.Leave()
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
