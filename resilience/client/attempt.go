package client

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/stintdev/stint/resilience/deadline"
)

// call is one call: its attempts, which come one after the other.
type call struct {
	options *Options
	below   http.RoundTripper

	attempt int            // from 1
	before  error          // why the attempt before failed, if it did
	pass    *Pass          // of the last attempt that was let through
	resp    *http.Response // the last answer
}

var errNoAnswer = errors.New("client: Base returned neither an answer nor an error")

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
		err = errNoAnswer
	}
	c.resp = resp
	c.judge(req.Context(), resp, err)
	if late := (*deadline.RefusedError)(nil); errors.As(err, &late) {
		return nil, c.refused(&RefusedError{Name: c.options.Name, Part: Deadline, Err: err})
	}
	if o := c.options.Retry; c.attempt == 1 && o != nil && o.Budget != nil {
		o.Budget.Request()
	}
	c.options.Observe(Event{Kind: Sent, Attempt: c.attempt, Took: took, Result: result(req.Context(), resp, err), Err: err})
	return resp, err
}

// judge tells the breaker how an attempt ended.
func (c *call) judge(ctx context.Context, resp *http.Response, err error) {
	var late *deadline.RefusedError
	if gaveUp(ctx, err) || errors.As(err, &late) {
		c.pass.Cancel()
		return
	}
	c.pass.Answer(c.options.Outcome(resp, err))
}

// refused adds to a refusal what came before. Errors of the context are none,
// and stay as they are. Either way nothing was sent, and what the budget granted
// for it is given back.
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

// abandon lets go of all that an attempt holds, because something panics.
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
