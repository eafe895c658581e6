package httplimit

import (
	"context"
	"net/http"
	"time"
)

// Decider decides a request. It is safe for use by many goroutines at once
// and does not keep the request.
type Decider interface {
	Decide(ctx context.Context, r *Request) (Answer, error)
}

// Middleware asks a decider before it lets requests pass.
type Middleware struct {
	// Decider decides; required.
	Decider Decider
	// Identity says who a request is from.
	Identity Identity
	// Clock returns the time that headers are told from. Defaults to
	// time.Now.
	Clock func() time.Time
	// OnError answers a request that could not be decided. Defaults to
	// [WriteError]; to let such requests pass, call next.
	OnError func(w http.ResponseWriter, r *http.Request, next http.Handler, err error)
}

// Wrap returns next behind the middleware.
func (m *Middleware) Wrap(next http.Handler) http.Handler { return next }

// WriteError answers a request that could not be decided.
func WriteError(w http.ResponseWriter, r *http.Request, err error) {}
