package retry

import (
	"net/http"
	"time"
)

// Transport is an [http.RoundTripper] that repeats requests by a policy. A
// request with a body is repeated only when it has GetBody, as
// [http.NewRequest] gives it for bytes, strings and their readers. What it
// returns is what the last attempt returned, body unread; when the context
// ends during a wait, of a body that was too long or too slow to be read
// before it (16 KiB, 50 ms) only the beginning is left. No connection is held
// during a wait. It is safe for use by many goroutines at once; do not change
// it then.
type Transport struct {
	// Base makes each attempt. Defaults to http.DefaultTransport.
	Base http.RoundTripper

	// Policy says how often, and when. Defaults to that of zero Options,
	// without a budget. Its Classify is not asked.
	Policy *Policy

	// Repeatable says which requests may be sent more than once. Defaults to
	// [Repeatable].
	Repeatable func(*http.Request) bool

	// Classify says what an attempt means; one of the two is nil. It must
	// leave the body unread. Defaults to [ClassifyHTTP].
	Classify func(resp *http.Response, err error, now time.Time) Verdict
}

// RoundTrip sends the request, more than once if that helps and does no harm.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	p := t.policy()
	r := p.begin(req.Context())
	for attempt := req; ; {
		resp, err := t.base().RoundTrip(attempt)
		if resp == nil && err == nil { // for net/http to complain of
			return nil, nil //nolint:nilnil // as Base did
		}
		v := t.verdict(req, resp, err, p.options.Clock.Now())
		if err == nil && !t.failed(resp, v) {
			return resp, nil
		}
		if attempt = r.resend(req, resp, v, stepOf(resp, err)); attempt == nil {
			return resp, err
		}
	}
}

// resend waits for the next attempt and returns its request, or nil if there
// is none. What can refuse the retry comes before the wait.
func (r *run) resend(req *http.Request, resp *http.Response, v Verdict, s Step) *http.Request {
	clock := r.policy.options.Clock
	heard := clock.Now()
	wait, ok := r.decide(v, s)
	if !ok {
		return nil
	}
	next, err := again(req)
	if err != nil {
		r.refund()
		return nil
	}
	keep(resp)
	if !r.sleep(max(0, wait-clock.Now().Sub(heard))) {
		closeBody(next)
		return nil
	}
	return next
}

// CloseIdleConnections closes those of Base, if it can.
func (t *Transport) CloseIdleConnections() {
	if c, ok := t.base().(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

func (t *Transport) policy() *Policy {
	if t.Policy != nil {
		return t.Policy
	}
	return &Policy{}
}

func (t *Transport) base() http.RoundTripper {
	if t.Base != nil {
		return t.Base
	}
	return http.DefaultTransport
}

// failed reports whether a response is worth being told of: a retry was
// thought of, or the status alone would have asked for one.
func (t *Transport) failed(resp *http.Response, v Verdict) bool {
	return v.Retry || RetryableStatus(resp.StatusCode)
}

// verdict is Classify's, of requests that may be sent again.
func (t *Transport) verdict(req *http.Request, resp *http.Response, err error, now time.Time) Verdict {
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

func stepOf(resp *http.Response, err error) Step {
	s := Step{Err: err}
	if resp != nil {
		s.Status = resp.StatusCode
	}
	return s
}

// again returns the request with its body at the beginning.
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
