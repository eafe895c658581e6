package httplimit

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"time"

	"github.com/stintdev/stint"
)

// Decider decides a request. It must be safe for concurrent use, and must not keep the
// request. A denial is an answer. An error, preferably a [*stint.Error], means that no
// decision could be made.
type Decider interface {
	Decide(ctx context.Context, r *Request) (Answer, error)
}

// Middleware asks a decider before it passes a request on. Its fields must not change
// once it is in use.
type Middleware struct {
	// Decider decides; required.
	Decider Decider
	// Identity says how the client of a request is identified.
	Identity Identity
	// Clock returns the current time for headers and bodies. Defaults to time.Now.
	Clock func() time.Time
	// OnError answers a request that could not be decided. It may log err, and call
	// next to let the request pass; a request with a [Request.TokenError] is answered
	// by next with that error. Defaults to [WriteError].
	OnError func(w http.ResponseWriter, r *http.Request, next http.Handler, err error)
}

// Wrap returns a handler that calls next for each request that may pass. A request
// that a leaky bucket delays waits in the handler; if its context ends first, next is
// not called. A [Counter] denies a request that it would delay past the deadline of
// the context. Without a Decider, or with an invalid Identity, OnError answers every
// request.
func (m *Middleware) Wrap(next http.Handler) http.Handler {
	decider := m.Decider
	if err := m.check(); err != nil {
		decider = unable{misconfigured(err)}
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := NewRequest(r, &m.Identity)
		answer, err := decider.Decide(r.Context(), q)
		if err != nil {
			m.fail(w, r, behindToken(q, next), err)
			return
		}
		if !answer.Allowed() {
			answer.WriteDenial(w, r, m.now())
			return
		}
		if err := q.TokenError(); err != nil {
			WriteError(w, r, err)
			return
		}
		answer.SetHeaders(w.Header(), m.now())
		serveAfter(w, r, next, answer.Decision.Delay)
	})
}

func (m *Middleware) check() error {
	if m.Decider == nil {
		return errors.New("no decider (set Decider)")
	}
	return m.Identity.Validate()
}

// unable is the decider of a misconfigured middleware.
type unable struct{ err error }

func (u unable) Decide(context.Context, *Request) (Answer, error) {
	return Answer{Binding: -1}, u.err
}

func (m *Middleware) now() time.Time {
	if m.Clock == nil {
		return time.Now()
	}
	return m.Clock()
}

func (m *Middleware) fail(w http.ResponseWriter, r *http.Request, next http.Handler, err error) {
	if m.OnError == nil {
		WriteError(w, r, err)
		return
	}
	m.OnError(w, r, next, err)
}

// behindToken returns next, or a handler that answers the error of the request's token.
func behindToken(q *Request, next http.Handler) http.Handler {
	err := q.TokenError()
	if err == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { WriteError(w, r, err) })
}

// serveAfter calls next after a delay, unless the context of the request ends first.
func serveAfter(w http.ResponseWriter, r *http.Request, next http.Handler, delay time.Duration) {
	if delay > 0 {
		if err := wait(r.Context(), delay); err != nil {
			WriteError(w, r, err)
			return
		}
	}
	next.ServeHTTP(w, r)
}

func wait(ctx context.Context, delay time.Duration) error {
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return &stint.Error{Code: stint.CodeCanceled, Problem: "the request ended while it was delayed", Err: context.Cause(ctx)}
	}
}

// Option changes what [Limit] does.
type Option func(m *Middleware, c *Counter)

// By counts by these attributes in place of the client's address; see [Counter.By].
func By(attributes ...string) Option {
	return func(_ *Middleware, c *Counter) { c.By = attributes }
}

// Trust makes Limit believe the forwarding headers of these proxies; see [Clients].
func Trust(proxies ...netip.Prefix) Option {
	return func(m *Middleware, _ *Counter) { m.Identity.Clients.Trusted = proxies }
}

// Limit returns middleware that counts requests under a limiter, by the client's
// address unless an option says otherwise. It is shorthand for a [Middleware] whose
// decider is a [Counter]; use these types for all other settings. The error reports a
// limiter without limits, an unknown attribute, or a claim without Tokens.
func Limit(limiter *stint.Limiter, opts ...Option) (func(http.Handler) http.Handler, error) {
	c := &Counter{Limiter: limiter}
	m := &Middleware{Decider: c}
	for _, opt := range opts {
		opt(m, c)
	}
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("httplimit: %w", err)
	}
	if slices.ContainsFunc(c.By, isClaim) && m.Identity.Tokens == nil {
		return nil, fmt.Errorf("httplimit: claims: %w", errNoTokens)
	}
	return m.Wrap, nil
}
