package deadline

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"
)

// Transport is an [http.RoundTripper] that tells the server how much time is
// left. The zero value tells the time until the context's deadline, or the less
// that a request which is passed on already says. Put it below whatever repeats
// requests, so that each attempt is told what is left by then. It is safe for
// use by many goroutines at once; do not change it then.
type Transport struct {
	// Base sends the requests. Defaults to http.DefaultTransport.
	Base http.RoundTripper

	// Header is where the time is told. Defaults to DefaultHeader.
	Header string

	// Total is the time of a request whose context has no deadline, from here
	// to the end of the response's body: of each attempt, below what repeats
	// requests. Zero: any, and nothing is told.
	Total time.Duration

	// Reserve is taken off what is told: the time to connect and to send, for
	// the answer to come back, and to make something of it. Zero: none.
	Reserve time.Duration
}

// RoundTrip sends the request with the time that is left for it. With less
// than a millisecond it sends nothing, and the error is a [*RefusedError].
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx, cancel := t.bound(req.Context())
	end, ok := ctx.Deadline()
	if !ok {
		return t.base().RoundTrip(req)
	}
	left := t.left(req.Header, end)
	if left < time.Millisecond {
		return nil, refuse(req, cancel, left)
	}
	told := req.WithContext(ctx)
	told.Header = req.Header.Clone()
	if told.Header == nil {
		told.Header = http.Header{}
	}
	Set(told.Header, t.Header, left)
	resp, err := t.base().RoundTrip(told)
	return withEnd(resp, err, cancel)
}

// left is what is told: the time to the end, no more than the request says
// already, as one does that is passed on for another caller.
func (t *Transport) left(h http.Header, end time.Time) time.Duration {
	left := time.Until(end)
	if said, ok := Left(h, t.Header); ok {
		left = min(left, said)
	}
	return left - max(0, t.Reserve)
}

// CloseIdleConnections closes those of Base, if it can.
func (t *Transport) CloseIdleConnections() {
	if c, ok := t.base().(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

func (t *Transport) base() http.RoundTripper {
	if t.Base != nil {
		return t.Base
	}
	return http.DefaultTransport
}

// bound gives a context the deadline of Total if it has none. The cancel is
// nil if it has.
func (t *Transport) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok || t.Total <= 0 {
		return ctx, nil
	}
	return context.WithTimeout(ctx, t.Total)
}

func refuse(req *http.Request, cancel context.CancelFunc, left time.Duration) error {
	if cancel != nil {
		cancel()
	}
	if req.Body != nil {
		_ = req.Body.Close()
	}
	return &RefusedError{Left: max(0, left)}
}

// RefusedError says that a request was not sent, because there was no time
// left for it. It is a timeout to net/http, and a [context.DeadlineExceeded]
// to [errors.Is].
type RefusedError struct {
	Left time.Duration // less than a millisecond
}

// Error returns how much time was left.
func (e *RefusedError) Error() string {
	return fmt.Sprintf("deadline: nothing was sent with %v left; give the call more time, or a smaller Reserve", e.Left)
}

// Timeout is true.
func (e *RefusedError) Timeout() bool { return true }

// Retryable is false, for package retry: there will be no more time.
func (e *RefusedError) Retryable() bool { return false }

// Unwrap returns [context.DeadlineExceeded].
func (e *RefusedError) Unwrap() error { return context.DeadlineExceeded }

// withEnd lets go of a context when the response has been read. A connection
// that now speaks another protocol keeps it until its deadline.
func withEnd(resp *http.Response, err error, cancel context.CancelFunc) (*http.Response, error) {
	switch {
	case cancel == nil:
	case err != nil:
		cancel()
	case resp.StatusCode != http.StatusSwitchingProtocols:
		resp.Body = &body{resp.Body, cancel}
	}
	return resp, err
}

type body struct {
	io.ReadCloser
	end context.CancelFunc
}

func (b *body) Close() error {
	defer b.end()
	return b.ReadCloser.Close()
}
