package server

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stintdev/stint"
)

var limitHeaders = []string{"X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset", "RateLimit", "Retry-After"}

func saidByHeaders(status int, h http.Header) string {
	said := []string{fmt.Sprint(status)}
	for _, name := range limitHeaders {
		value := h.Get(name)
		if name == "RateLimit" { // without the name of the policy
			_, value, _ = strings.Cut(value, ";")
		}
		said = append(said, value)
	}
	return strings.Join(said, "; ")
}

// inHeaders is a decision in the standard dialect of headers.
func inHeaders(d decided) string {
	status, retry, t := http.StatusOK, "", d.combined.NextAfter
	if !d.combined.Allowed {
		status, t = http.StatusTooManyRequests, d.combined.RetryAfter
		if t != stint.Never {
			retry = fmt.Sprint(max(1, up(t, time.Second)))
		}
	}
	rate := fmt.Sprintf("r=%d", d.combined.Remaining)
	if t > 0 && t != stint.Never {
		rate += fmt.Sprintf(";t=%d", up(t, time.Second))
	}
	reset := up(time.Duration(d.combined.At)*time.Microsecond+d.combined.ResetAfter, time.Second)
	return fmt.Sprintf("%d; %d; %d; %d; %s; %s", status, d.combined.Limit, d.combined.Remaining, reset, rate, retry)
}

func (q *question) header() []string {
	return []string{"X-API-Key", q.key, "X-Cost", fmt.Sprint(q.cost)}
}

func askAuth(_ *testing.T, w *world, q question, d decided) (got, want string) {
	a := w.get("http", fmt.Sprintf("/v1/auth/header/%d", q.index), q.header()...)
	delay := ""
	if d.combined.Delay > 0 {
		delay = fmt.Sprint(up(d.combined.Delay, time.Millisecond))
	}
	return saidByHeaders(a.status, a.header) + a.header.Get("X-RateLimit-Delay-Ms"), inHeaders(d) + delay
}

func askGateway(_ *testing.T, w *world, q question, d decided) (got, want string) {
	a := w.get("gateway", fmt.Sprintf("/header/%d", q.index), q.header()...)
	return saidByHeaders(a.status, a.header), inHeaders(d)
}

func askMiddleware(t *testing.T, w *world, q question, d decided) (got, want string) {
	return askHandler(t, w.handlers[q.index], "/", q), inHeaders(d)
}

func askRulesInProgram(t *testing.T, w *world, q question, d decided) (got, want string) {
	return askHandler(t, w.ruled, fmt.Sprintf("/header/%d", q.index), q), inHeaders(d)
}

// askHandler sends a question to a handler in this process.
func askHandler(t *testing.T, h http.Handler, path string, q question) string {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, http.NoBody)
	for header := q.header(); len(header) > 0; header = header[2:] {
		r.Header.Set(header[0], header[1])
	}
	answer := httptest.NewRecorder()
	h.ServeHTTP(answer, r)
	return saidByHeaders(answer.Code, answer.Header())
}
