package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/resilience/breaker"
	"github.com/stintdev/stint/storekit"
)

// ObserveStart reports the start of an event to the Observer, if there is one, with the
// dependency's name. It returns the context of the operation.
func (p *Chain) ObserveStart(ctx context.Context, e stint.Event) context.Context {
	if p == nil || p.Observer == nil {
		return ctx
	}
	e.Name = p.Name
	return p.Observer.Start(ctx, e)
}

// Observe passes an event to the Observer, if there is one, with the dependency's name.
func (p *Chain) Observe(ctx context.Context, e stint.Event) {
	if p != nil && p.Observer != nil {
		e.Name = p.Name
		p.Observer.Observe(ctx, e)
	}
}

// Metrics returns the current state of the bulkhead and the breaker, for an exporter. A
// nil part has no samples.
func (p *Chain) Metrics() []storekit.Metric {
	state := storekit.Metric{Name: "client_breaker_state", Help: "1 for the state that the breaker is in.", Label: "state"}
	limit := storekit.Metric{Name: "client_bulkhead_limit", Help: "Places that the bulkhead has."}
	inUse := storekit.Metric{Name: "client_bulkhead_in_use", Help: "Places of the bulkhead that are held."}
	waiting := storekit.Metric{Name: "client_bulkhead_waiting", Help: "Callers that wait for a place of the bulkhead."}
	if p != nil && p.Breaker != nil {
		current := p.Breaker.State()
		for _, s := range []breaker.State{breaker.Closed, breaker.Open, breaker.HalfOpen, breaker.ForcedOpen, breaker.Disabled} {
			sample := storekit.Sample{Label: snakeCase(s)}
			if s == current {
				sample.Value = 1
			}
			state.Samples = append(state.Samples, sample)
		}
	}
	if p != nil && p.Bulkhead != nil {
		u := p.Bulkhead.Usage()
		limit.Samples = []storekit.Sample{{Value: float64(u.Limit)}}
		inUse.Samples = []storekit.Sample{{Value: float64(u.InUse)}}
		waiting.Samples = []storekit.Sample{{Value: float64(u.Waiting)}}
	}
	return []storekit.Metric{state, limit, inUse, waiting}
}

// snakeCase returns the text of a state or a reason in snake case, such as "half_open".
func snakeCase(s fmt.Stringer) string {
	return strings.NewReplacer("-", "_", " ", "_").Replace(s.String())
}

// result names how a call or an attempt ended.
func result(ctx context.Context, resp *http.Response, err error) string {
	switch {
	case err == nil:
		return class(resp.StatusCode)
	case errors.Is(err, ErrRefused):
		return "refused"
	case gaveUp(ctx, err), errors.Is(err, context.Canceled):
		return "canceled"
	case timedOut(ctx, err):
		return "timeout"
	}
	return "error"
}

func class(status int) string {
	switch {
	case status == http.StatusTooManyRequests:
		return "429"
	case !valid(status):
		return "5xx"
	}
	return strconv.Itoa(status/100) + "xx"
}

// valid reports whether a number is a valid status. Servers can send any number, and over
// HTTP/2 one of any length. A client treats an invalid status as a 5xx (RFC 9110, section
// 15).
func valid(status int) bool { return status >= 100 && status < 600 }

// gaveUp reports whether an attempt failed because its caller canceled it.
func gaveUp(ctx context.Context, err error) bool {
	return err != nil && errors.Is(ctx.Err(), context.Canceled)
}

// timedOut reports whether an attempt failed because it took too long. With
// http.Client.Timeout an attempt ends with another error, sometimes before its context
// ends.
func timedOut(ctx context.Context, err error) bool {
	if end, ok := ctx.Deadline(); ok && !time.Now().Before(end) {
		return true
	}
	var timeout interface{ Timeout() bool }
	return errors.As(err, &timeout) && timeout.Timeout()
}
