package gateway

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/stintdev/stint/resilience/adaptive"
	"github.com/stintdev/stint/resilience/deadline"
)

// withDeadline returns the handler of a group's requests. It ends each of them when the
// time that its client gives it, or the Timeout of the group, is over.
func (g *Gateway) withDeadline(gr *group) http.Handler {
	m := deadline.Middleware{Max: gr.options.Timeout, Expired: http.HandlerFunc(g.expire)}
	return m.Wrap(http.HandlerFunc(g.forward))
}

func (g *Gateway) forward(w http.ResponseWriter, r *http.Request) {
	x := exchangeOf(r)
	if _, ok := r.Context().Deadline(); ok {
		x.given, _ = deadline.Left(r.Header, "")
	}
	gr := x.route.group
	if gr.options.Breaker != nil || gr.options.Ejection != nil {
		x.client = g.options.ClientAddr(r)
	}
	if gr.bulkhead != nil {
		var err error
		if x.slot, err = gr.bulkhead.Acquire(r.Context()); err != nil {
			g.fail(w, r, err)
			return
		}
		defer x.slot.Release()
	}
	g.proxy.ServeHTTP(w, r)
}

// overdue returns whose time is over, deadline.ErrCallersTime or deadline.ErrServersTime,
// or nil while there is time. A busy server may end the read of a body, and cancel the
// request because of that, before the context notices its deadline.
func (x *exchange) overdue(ctx context.Context) error {
	cause := context.Cause(ctx)
	if errors.Is(cause, deadline.ErrCallersTime) || errors.Is(cause, deadline.ErrServersTime) {
		return cause
	}
	end, ok := ctx.Deadline()
	if !ok || time.Now().Before(end) {
		return nil
	}
	if timeout := x.route.group.options.Timeout; x.given > 0 && (timeout == 0 || x.given <= timeout) {
		return deadline.ErrCallersTime
	}
	return deadline.ErrServersTime
}

// expire answers a request whose deadline is over before its response began.
func (g *Gateway) expire(w http.ResponseWriter, r *http.Request) {
	x := exchangeOf(r)
	f := x.late
	if f == nil { // there was no time left when the gateway got the request
		f = &failure{http.StatusGatewayTimeout, codeDeadline, "The time that the client gives this request is over", 0}
	}
	x.answered(&x.route.metrics, x.statusOf(r, f))
	x.answerFailure(w, r, f)
}

// A client decides how much time its request gets. A response that fails because that was
// too little must not count against an upstream: a client could otherwise make healthy
// upstreams look broken. Most such requests end in the gateway, at the deadline. But the
// upstream is told the time that is left, and may itself answer 503 or 504 because of it.
//
// So a failed response counts only if the upstream had enough time: the client gave it
// leastTime or more, and half of its time is left. What is not counted is little: an
// upstream that is down or overloaded also fails quickly, or fails other requests.
const leastTime = 100 * time.Millisecond

// hurried reports whether a failed response may be due to the deadline of the client.
func (x *exchange) hurried(ctx context.Context) bool {
	end, ok := ctx.Deadline()
	return ok && x.given > 0 && (x.given < leastTime || time.Until(end) < x.given/2)
}

// ignoreHurried keeps a response that failed because of the client's hurry from lowering
// the bound on requests in flight.
func (x *exchange) ignoreHurried(res *http.Response) {
	if failedStatus(res.StatusCode) && x.hurried(res.Request.Context()) {
		adaptive.Ignore(x.w)
	}
}
