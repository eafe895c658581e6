package adapt

import (
	"context"
	"errors"
	"fmt"
	"net/http"
)

// Transport is an [http.RoundTripper] that sends requests as a [Gate] says,
// such as a [Throttle]. Gate is needed. A place is given back when the answer
// begins. Answers of 429, 503 and 504 are [Dropped], and so are all errors but
// that the caller gave up. Do not change it once it is in use.
type Transport struct {
	Gate Gate

	// Base sends the requests. Defaults to http.DefaultTransport.
	Base http.RoundTripper
}

// ErrShed says that a gate let a request not be sent.
var ErrShed = errors.New("adapt: not sent, because too much is refused already")

// RoundTrip sends the request, or returns an error that is [ErrShed].
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	call, ok := t.Gate.Enter()
	if !ok {
		if req.Body != nil {
			_ = req.Body.Close()
		}
		return nil, fmt.Errorf("%s: %w", req.URL.Host, ErrShed)
	}
	how := Ignored // where it panics
	defer func() { call.End(how) }()
	resp, err := t.base().RoundTrip(req)
	how = sent(req.Context(), resp, err)
	return resp, err
}

func (t *Transport) base() http.RoundTripper {
	if t.Base != nil {
		return t.Base
	}
	return http.DefaultTransport
}

func sent(ctx context.Context, resp *http.Response, err error) Outcome {
	switch {
	case err != nil && errors.Is(ctx.Err(), context.Canceled):
		return Ignored
	case err != nil || resp.StatusCode == http.StatusTooManyRequests:
		return Dropped
	}
	return outcome(context.Background(), resp.StatusCode)
}
