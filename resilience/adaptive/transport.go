package adaptive

import (
	"cmp"
	"context"
	"errors"
	"net/http"
)

// Transport is an [http.RoundTripper] that sends requests through a [Gate], such as a
// [Throttle]. Without a Gate it sends every request. A request frees its place when the
// response begins. Responses of 429, 503 and 504 are failures ([Failure]), and so are
// errors, unless the caller gave up. Put Transport around a transport with a breaker, not below one: the
// breaker would count shed requests as failures. Do not change it once it is in use.
type Transport struct {
	Gate Gate

	// Outcome returns what a round trip tells about the load; either resp or err is nil.
	// It is not called if the caller gave up. Defaults to the outcomes listed at
	// Transport.
	Outcome func(resp *http.Response, err error) Outcome

	// Base sends the requests. Defaults to http.DefaultTransport.
	Base http.RoundTripper
}

// RoundTrip sends the request, or returns a [*RefusedError] if the gate sheds it.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	call, ok := begin(t.Gate)
	if !ok {
		if req.Body != nil {
			_ = req.Body.Close()
		}
		return nil, &RefusedError{Host: req.URL.Host}
	}
	how := Ignored // the outcome if Base panics
	defer func() { call.End(how) }()
	resp, err := t.base().RoundTrip(req)
	how = t.outcome(req.Context(), resp, err)
	return resp, err
}

func (t *Transport) base() http.RoundTripper {
	return cmp.Or(t.Base, http.DefaultTransport)
}

func (t *Transport) outcome(ctx context.Context, resp *http.Response, err error) Outcome {
	switch {
	case err != nil && errors.Is(ctx.Err(), context.Canceled):
		return Ignored
	case t.Outcome != nil:
		return t.Outcome(resp, err)
	case err != nil || resp.StatusCode == http.StatusTooManyRequests:
		return Failure
	}
	return outcome(context.Background(), resp.StatusCode)
}
