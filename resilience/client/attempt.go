package client

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/stintdev/stint/resilience/deadline"
)

// attempts sends each attempt through the parts.
type attempts struct {
	options *Options
	below   http.RoundTripper
}

// RoundTrip makes one attempt.
func (a *attempts) RoundTrip(req *http.Request) (*http.Response, error) {
	c := callOf(req.Context())
	c.attempt++
	pass, err := a.options.Enter(req.Context(), a.options.Key(req))
	if err != nil {
		closeBody(req)
		return nil, a.refused(c, err)
	}
	resp, err := a.send(req, pass, c)
	c.before = err
	if err == nil {
		c.before = &StatusError{resp.StatusCode}
	}
	if err == nil && a.options.mayRepeat(resp) {
		pass.Leave()
	}
	return atEnd(resp, err, pass.end())
}

func (a *attempts) send(req *http.Request, pass *Pass, c *call) (*http.Response, error) {
	start, returned := time.Now(), false
	defer func() {
		if !returned { // it panics
			pass.Failure()
			pass.Leave()
		}
	}()
	resp, err := a.below.RoundTrip(req)
	returned = true
	a.judge(req.Context(), pass, resp, err)
	if late := (*deadline.RefusedError)(nil); errors.As(err, &late) {
		return nil, a.refused(c, &RefusedError{Name: a.options.Name, Part: Deadline, Err: err})
	}
	a.options.Observe(Event{Kind: Sent, Attempt: c.attempt, Took: time.Since(start), Result: result(resp, err), Err: err})
	return resp, err
}

// mayRepeat reports whether a response may be given up for another attempt. It
// then holds no place, because its body stays open during the wait.
func (o *Options) mayRepeat(resp *http.Response) bool {
	return o.Retry != nil && o.Classify(resp, nil, time.Now()).Retry
}

// judge tells the breaker how an attempt ended.
func (a *attempts) judge(ctx context.Context, pass *Pass, resp *http.Response, err error) {
	var late *deadline.RefusedError
	switch {
	case err != nil && errors.Is(ctx.Err(), context.Canceled), errors.As(err, &late):
		pass.Cancel()
	case a.options.Failed(resp, err):
		pass.Failure()
	default:
		pass.Success()
	}
}

// refused adds to a refusal what came before. Errors of the context are none,
// and stay as they are.
func (a *attempts) refused(c *call, err error) error {
	if r := (*RefusedError)(nil); errors.As(err, &r) {
		r.Before = c.before
		a.options.Observe(Event{Kind: Refused, Attempt: c.attempt, Part: r.Part, Err: r})
	}
	return err
}

func closeBody(req *http.Request) {
	if req.Body != nil {
		_ = req.Body.Close()
	}
}
