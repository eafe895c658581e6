package gateway

import (
	"errors"
	"net/http"
	"net/netip"
	"time"

	"github.com/stintdev/stint/resilience/breaker"
	"github.com/stintdev/stint/resilience/deadline"
)

// report ends an attempt: it tells the circuit of the upstream what the attempt showed.
func (g *Gateway) report(r *http.Request, u *upstream, p *permit, a *attempt, res *http.Response, err error) {
	if u.circuit.witnesses == nil {
		return
	}
	x := exchangeOf(r)
	o, certain := x.outcome(r, a, res, err)
	if o != breaker.Ignored && !certain && !u.circuit.believes(x.client, p.probe, o, g.now()) {
		o = breaker.Ignored
	}
	p.end(o)
}

// believes reports whether an outcome counts that may be due to the client. A probe that
// succeeds always does. One that fails counts once for a client: if its next probe fails
// too, another request may probe at once. The client alone cannot keep a circuit open that
// others would close.
func (c *circuit) believes(client netip.Addr, probe bool, o breaker.Outcome, now time.Time) bool {
	if !probe {
		return c.witnesses.counts(client, now)
	}
	place := int64(c.witnesses.place(client)) + 1
	return o == breaker.Success || c.witnesses.failedProbe.Swap(place) != place
}

// outcome returns what an attempt shows about its upstream. It is certain if it cannot be
// due to the request, and so to the client: the upstream could not be reached.
func (x *exchange) outcome(r *http.Request, a *attempt, res *http.Response, err error) (o breaker.Outcome, certain bool) {
	switch {
	case err == nil && !failedStatus(res.StatusCode):
		return breaker.Success, false
	case err == nil && x.hurried(r.Context()):
		return breaker.Ignored, false
	case err == nil:
		return breaker.Failure, false
	case r.Context().Err() != nil && !errors.Is(x.overdue(r.Context()), deadline.ErrServersTime): // the client left, or its time is over
		return breaker.Ignored, false
	case errors.Is(err, deadline.ErrRefused), x.clientStopped(err), x.body.malformed(), tooLarge(err):
		return breaker.Ignored, false
	case a.reached.Load():
		return breaker.Failure, false
	case a.dialFailed.Load():
		return breaker.Failure, true
	}
	return breaker.Ignored, false // the request cannot be sent to any upstream
}

func tooLarge(err error) bool {
	var tooLarge *http.MaxBytesError
	return errors.As(err, &tooLarge)
}

// failedStatus reports whether a status says that the upstream failed. 501 and 505 do
// not: they depend on the request alone.
func failedStatus(status int) bool {
	switch status {
	case http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}
