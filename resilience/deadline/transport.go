package deadline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// Transport is an [http.RoundTripper] that sends the time left to the server. A nil
// Transport and the zero value send the time until the context's deadline, or the time in
// the request's headers if that is less, as in a request that is passed on. Put it below
// the transport that retries, so that each attempt carries the time left by then. It is
// safe for concurrent use; do not change it once it is in use.
type Transport struct {
	// Base sends the requests. Defaults to http.DefaultTransport.
	Base http.RoundTripper

	// Header is the header that carries the time. Defaults to DefaultHeader.
	Header string

	// Timeout is the time of a request whose context has no deadline, from RoundTrip to the
	// end of the response's body. Below a transport that retries, it is the time of each
	// attempt. Zero: no bound, and no time is sent.
	Timeout time.Duration

	// Reserve is subtracted from the time that is sent. It accounts for the time to
	// connect, to send, to receive the response and to process it. Zero: nothing is
	// subtracted.
	Reserve time.Duration
}

// RoundTrip sends the request with the time that is left for it. If less than a
// millisecond is left, it sends nothing and returns a [*RefusedError].
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if t == nil {
		t = &Transport{}
	}
	ctx, cancel := t.bound(req.Context())
	end, ok := ctx.Deadline()
	if !ok {
		return t.base().RoundTrip(req)
	}
	left := t.left(req.Header, end)
	if left < time.Millisecond {
		return nil, refuse(req, cancel, left)
	}
	out := req.WithContext(ctx)
	out.Header = req.Header.Clone()
	if out.Header == nil {
		out.Header = http.Header{}
	}
	Set(out.Header, t.Header, left)
	resp, err := t.base().RoundTrip(out)
	return withEnd(resp, err, cancel)
}

// left returns the time to send: the time until end, or the time in the request's headers
// if that is less, minus Reserve.
func (t *Transport) left(h http.Header, end time.Time) time.Duration {
	left := time.Until(end)
	if sent, ok := Left(h, t.Header); ok {
		left = min(left, sent)
	}
	return left - max(0, t.Reserve)
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

// bound gives a context without a deadline the deadline of Timeout. cancel is nil if the
// context is unchanged.
func (t *Transport) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok || t.Timeout <= 0 {
		return ctx, nil
	}
	return context.WithTimeout(ctx, t.Timeout)
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

// ErrRefused is what a [*RefusedError] is to [errors.Is].
var ErrRefused = errors.New("no time was left for the request")

// RefusedError reports that a request was not sent because no time was left. It is a
// timeout to net/http, and a [context.DeadlineExceeded] to [errors.Is].
type RefusedError struct {
	Left time.Duration // the time left, less than a millisecond
}

// Error returns how much time was left.
func (e *RefusedError) Error() string {
	return fmt.Sprintf("deadline: nothing was sent with %v left; give the call more time, or a smaller Reserve", e.Left)
}

// Timeout returns true.
func (e *RefusedError) Timeout() bool { return true }

// Retryable returns false: a retry would have no more time.
func (e *RefusedError) Retryable() bool { return false }

// Is reports whether the target is [ErrRefused].
func (e *RefusedError) Is(target error) bool { return target == ErrRefused }

// Unwrap returns [context.DeadlineExceeded].
func (e *RefusedError) Unwrap() error { return context.DeadlineExceeded }

// withEnd cancels a context when the response's body is closed. A connection that has
// changed its protocol keeps the context until its deadline.
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
