package client

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/stintdev/stint/resilience/retry"
)

// Observer receives the events of a client's calls. Observe is called by many goroutines
// at once, in the middle of calls, so it must return quickly. Package clientmetrics has
// an Observer for Prometheus.
type Observer interface {
	Observe(e Event)
}

// Event is one event of a call.
type Event struct {
	Kind    Kind
	Name    string // name of the dependency
	Attempt int    // counts from 1; of Ended: the number of attempts

	Took   time.Duration // of Sent and Ended, until the header of the response
	Result string        // of Sent and Ended: "1xx" to "5xx" (429 is "429") or "UNAVAILABLE", "error", "timeout", "canceled", "refused"
	Part   Part          // the part that refused, for Refused
	Step   retry.Step    // the step that was decided, for Decided
	Err    error         // of all but Decided; nil if there was a response
}

// Kind is what an [Event] is about.
type Kind uint8

// The kinds.
const (
	Sent    Kind = iota // an attempt was sent, and answered or not
	Refused             // a part refused an attempt
	Decided             // an attempt failed, and a retry was decided on or against
	Ended               // the call has ended, except for its body
)

// String returns the kind in lower case: "sent".
func (k Kind) String() string {
	names := [...]string{"sent", "refused", "decided", "ended"}
	if int(k) >= len(names) {
		return "unknown"
	}
	return names[k]
}

// Observe passes an event to the Observer, if there is one, with the dependency's name.
func (p *Chain) Observe(e Event) {
	if p.Observer != nil {
		e.Name = p.Name
		p.Observer.Observe(e)
	}
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
