package client

import (
	"context"
	"net/http"
	"strconv"
	"time"
)

// Transport is an [http.RoundTripper] of several parts. Make one with [New].
// It is safe for use by many goroutines at once.
type Transport struct {
	options Options
	calls   http.RoundTripper
}

// RoundTrip makes one call, of as many attempts as it takes.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	start, c := time.Now(), &call{}
	ctx, cancel := t.bound(context.WithValue(req.Context(), callKey{}, c))
	resp, err := t.calls.RoundTrip(req.WithContext(ctx))
	t.options.Observe(Event{Kind: Ended, Attempt: c.attempt, Took: time.Since(start), Result: result(resp, err), Err: err})
	return atEnd(resp, err, cancel)
}

func (t *Transport) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	if t.options.Total == 0 {
		return ctx, nil
	}
	return context.WithTimeout(ctx, t.options.Total)
}

// CloseIdleConnections closes those of Base, if it can.
func (t *Transport) CloseIdleConnections() {
	if c, ok := t.options.Base.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// call is what is known of a call across its attempts, which come one after
// the other.
type call struct {
	attempt int
	before  error // why the attempt before failed, if it did
}

type callKey struct{}

// callOf returns the call of a context that [Transport.RoundTrip] made.
func callOf(ctx context.Context) *call {
	if c, ok := ctx.Value(callKey{}).(*call); ok {
		return c
	}
	return &call{}
}

func result(resp *http.Response, err error) string {
	if err != nil {
		return ResultOf(err)
	}
	if resp.StatusCode == http.StatusTooManyRequests {
		return "429"
	}
	return strconv.Itoa(resp.StatusCode/100) + "xx"
}
