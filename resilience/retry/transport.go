package retry

import (
	"cmp"
	"net/http"
	"time"
)

// Transport is an [http.RoundTripper] that retries requests by a policy. It retries a
// request with a body only if the request has GetBody, which [http.NewRequest] sets for
// bytes, strings and their readers.
//
// It returns the result of the last attempt, with the body unread. It holds no connection
// during a wait: before the wait it reads up to 16 KiB of the response, for up to 50 ms,
// and closes it. If the context then ends during the wait, the caller gets that response,
// and a body that was longer or slower is cut off with an error.
//
// A nil Transport behaves like the zero value. It is safe for concurrent use; do not change
// it once it is in use.
type Transport struct {
	// Base makes each attempt. Defaults to http.DefaultTransport.
	Base http.RoundTripper

	// Policy decides about retries. Its Classify is not called. Defaults to a policy of
	// zero Options, which has no budget.
	Policy *Policy

	// Repeatable reports whether a request may be sent more than once. Defaults to
	// [Repeatable].
	Repeatable func(*http.Request) bool

	// Classify classifies an attempt; either resp or err is nil. It must leave the body
	// unread. Defaults to [ClassifyHTTP].
	Classify func(resp *http.Response, err error, now time.Time) Classification
}

// RoundTrip sends the request, and sends it again while the policy allows.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if t == nil {
		t = &Transport{}
	}
	p := t.Policy.orZero()
	r := p.begin(req.Context())
	for attempt := req; ; {
		resp, err := t.base().RoundTrip(attempt)
		if resp == nil && err == nil { // net/http reports this error of Base
			return nil, nil //nolint:nilnil // returns what Base returned
		}
		v, step := t.classify(req, resp, err, p.options.Clock()), Step{Err: err}
		if resp != nil {
			step.Status = resp.StatusCode
		}
		if err == nil && !v.Retry && !retryableStatus(resp.StatusCode) {
			return resp, nil // no failure, so the policy does not observe a step
		}
		if attempt = r.resend(req, resp, v, step); attempt == nil {
			return resp, err
		}
	}
}

// resend waits for the next attempt and returns its request, or nil if there is none.
// Everything that can refuse the retry is checked before the wait.
func (r *run) resend(req *http.Request, resp *http.Response, v Classification, s Step) *http.Request {
	clock := r.policy.options.Clock
	began := clock()
	wait, ok := r.decide(v, s)
	if !ok {
		return nil
	}
	next, err := again(req)
	if err != nil {
		r.refund()
		return nil
	}
	drain(resp)
	if !r.sleep(max(0, wait-clock().Sub(began))) {
		closeBody(next)
		return nil
	}
	return next
}

// CloseIdleConnections closes the idle connections of Base, if Base supports it.
func (t *Transport) CloseIdleConnections() {
	if t == nil {
		t = &Transport{}
	}
	if c, ok := t.base().(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

func (t *Transport) base() http.RoundTripper {
	return cmp.Or(t.Base, http.DefaultTransport)
}

// classify calls Classify. It allows no retry of a request that must not be sent again.
func (t *Transport) classify(req *http.Request, resp *http.Response, err error, now time.Time) Classification {
	classify, repeatable := t.Classify, t.Repeatable
	if classify == nil {
		classify = ClassifyHTTP
	}
	if repeatable == nil {
		repeatable = Repeatable
	}
	v := classify(resp, err, now)
	v.Retry = v.Retry && rewindable(req) && repeatable(req)
	return v
}

func rewindable(req *http.Request) bool {
	return req.Body == nil || req.Body == http.NoBody || req.GetBody != nil
}

// again returns a copy of the request with its body at the beginning.
func again(req *http.Request) (*http.Request, error) {
	next := req.WithContext(req.Context())
	if req.Body == nil || req.Body == http.NoBody {
		return next, nil
	}
	body, err := req.GetBody()
	next.Body = body
	return next, err
}

func closeBody(req *http.Request) {
	if req.Body != nil {
		_ = req.Body.Close()
	}
}
