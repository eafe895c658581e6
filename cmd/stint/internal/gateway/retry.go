package gateway

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/stintdev/stint/resilience/retry"
	"github.com/stintdev/stint/resilience/retrybudget"
)

// RetryOptions says which requests of a group are sent again after a failure. Requests are
// sent again only if their method is idempotent (GET, HEAD, OPTIONS, PUT, DELETE), if they
// have no body or a small one, and if no response has begun.
type RetryOptions struct {
	// Attempts is how often a request is sent at most, the first time included: 2 to 5.
	// Defaults to 2.
	Attempts int

	// On lists the failures after which a request is sent again: connect (no upstream can
	// be reached), reset (the connection broke before the response), 502, 503 and 504.
	// Defaults to all of them.
	On []string

	// Budget is the greatest share of the requests that is sent again, above 0, at most
	// 1; one a second is granted beyond it. Defaults to 0.1.
	Budget float64
}

const (
	maxAttempts = 5

	// maxReplay bounds the bodies that are kept for another attempt.
	maxReplay = 16 << 10

	// Waits between attempts are short: the client waits too, and another upstream is
	// usually free. A longer Retry-After is passed on to the client.
	retryWait, retryMaxWait, retryMaxAfter = 25 * time.Millisecond, 250 * time.Millisecond, time.Second
)

// retryCauses are the failures after which a request is sent again.
type retryCauses struct {
	connect, reset bool
	statuses       []int
}

func newRetryCauses(on []string) (c retryCauses, err error) {
	if len(on) == 0 {
		on = []string{"connect", "reset", "502", "503", "504"}
	}
	for _, cause := range on {
		switch cause {
		case "connect":
			c.connect = true
		case "reset":
			c.reset = true
		case "502", "503", "504":
			c.statuses = append(c.statuses, http.StatusBadGateway+int(cause[2]-'2'))
		default:
			return c, fmt.Errorf("retry: on: %.20q is not known (use connect, reset, 502, 503 or 504)", cause)
		}
	}
	return c, nil
}

// newRetries returns the transport that sends requests of the group once or again, or nil.
func (g *Gateway) newRetries(gr *group) (http.RoundTripper, error) {
	o := gr.options.Retry
	if o == nil {
		return nil, nil //nolint:nilnil // the group has no retries
	}
	causes, err := newRetryCauses(o.On)
	if err != nil {
		return nil, err
	}
	budget, err := retrybudget.New(retrybudget.Options{Share: o.Budget, Clock: gr.now})
	if err != nil {
		return nil, err
	}
	policy, err := retry.New(retry.Options{
		Attempts: cmp.Or(o.Attempts, 2), Base: retryWait, Cap: retryMaxWait, MaxRetryAfter: retryMaxAfter, Budget: budget, Observe: gr.observeRetry,
	})
	if err != nil {
		return nil, err
	}
	return &retry.Transport{Base: roundTripper(g.sendOnce), Policy: policy, Repeatable: repeatable, Classify: causes.classify}, nil
}

func (gr *group) observeRetry(s retry.Step) {
	switch s.Stop {
	case retry.Continue:
		gr.metrics.Retries.Inc()
	case retry.StopBudget:
		gr.metrics.RetriesRefused.Inc()
	}
}

// repeatable reports whether a request may be sent twice by its method alone. An
// Idempotency-Key is the client's claim, and only the application knows whether it keeps
// to it.
func repeatable(r *http.Request) bool {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodPut, http.MethodDelete:
		return true
	}
	return false
}

func (c *retryCauses) classify(res *http.Response, err error, now time.Time) retry.Classification {
	var network net.Error
	switch {
	case err == nil && slices.Contains(c.statuses, res.StatusCode):
		wait, ok := retry.RequestedWait(res, now)
		return retry.Classification{Retry: ok, After: wait}
	case err == nil, errors.Is(err, errAllOpen):
		return retry.Classification{}
	case errors.Is(err, errAllDown):
		return retry.Classification{Retry: c.connect}
	case errors.As(err, &network) && network.Timeout():
		return retry.Classification{} // the upstream had its time
	}
	return retry.Classification{Retry: c.reset && retry.NetworkError(err)}
}

// replayable returns the request with a body that can be sent twice, if the request may
// be and its body is small. It reads the body to its end.
func replayable(r *http.Request) (*http.Request, error) {
	if !repeatable(r) || r.Body == nil || r.ContentLength < 1 || r.ContentLength > maxReplay || len(r.Trailer) > 0 {
		return r, nil
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	again := r.WithContext(r.Context())
	again.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	again.Body, _ = again.GetBody()
	return again, nil
}
