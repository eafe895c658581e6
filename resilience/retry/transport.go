package retry

import (
	"io"
	"net/http"
	"time"
)

// Transport is an [http.RoundTripper] that repeats requests by a policy. A
// request with a body is repeated only when it has GetBody, as
// [http.NewRequest] gives it for bytes, strings and their readers. What it
// returns is what the last attempt returned, body unread. It is safe for use
// by many goroutines at once; do not change it then.
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
	p, err := t.policy()
	if err != nil {
		return nil, err
	}
	r := p.begin(req.Context())
	for attempt := req; ; {
		resp, err := t.base().RoundTrip(attempt)
		v := t.verdict(req, resp, err, p.options.Clock.Now())
		if err == nil && !t.failed(resp, v) || !r.again(v, stepOf(resp, err)) {
			return resp, err
		}
		next, bodyErr := again(req)
		if bodyErr != nil {
			r.giveBack()
			return resp, err
		}
		discard(resp)
		attempt = next
	}
}

func (t *Transport) policy() (*Policy, error) {
	if t.Policy != nil {
		return t.Policy, nil
	}
	return New(Options{})
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

// An unwanted body is read so far, for so long, to keep its connection.
const (
	discardBytes = 16 << 10
	discardTime  = 50 * time.Millisecond
)

func discard(resp *http.Response) {
	if resp == nil || resp.Body == nil {
		return
	}
	closing := time.AfterFunc(discardTime, func() { _ = resp.Body.Close() })
	defer closing.Stop()
	_, _ = io.CopyN(io.Discard, resp.Body, discardBytes)
	_ = resp.Body.Close()
}
