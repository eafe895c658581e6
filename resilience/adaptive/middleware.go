package adaptive

import (
	"io"
	"net/http"
	"strconv"
	"time"
)

// Middleware has a [Gate] guard a handler. Without one it lets all in.
type Middleware struct {
	Gate Gate

	// Refused answers what is shed. Defaults to 503 with a body that says so
	// and a Retry-After of one second.
	Refused http.Handler
}

// Wrap returns a handler that lets requests in as the gate says. Their latency
// is the time until the answer begins, since what was read of the body last, so
// that clients which send slowly do not look like load. Their place is given
// back at its end, or when the connection becomes something else: WebSocket, or
// a stream of events. Answers of 503 and 504 are [Dropped], and so is what comes
// after the deadline of the request's context; requests whose client has left,
// and those of which [Ignore] was told, are [Ignored].
func (m Middleware) Wrap(next http.Handler) http.Handler {
	if m.Refused == nil {
		m.Refused = Refusal(time.Second)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		call, ok := enter(m.Gate)
		if !ok {
			m.Refused.ServeHTTP(w, r)
			return
		}
		answer := &writer{ResponseWriter: w, call: call, request: r}
		defer answer.end()
		next.ServeHTTP(answer, answer.watch(r))
		answer.returned = true
	})
}

// Refusal returns a handler that answers 503 and when to come back, in whole
// seconds, rounded up.
func Refusal(retryAfter time.Duration) http.Handler {
	seconds := strconv.FormatInt(int64((max(retryAfter, 1)+time.Second-1)/time.Second), 10)
	body := `{"error":{"code":"OVERLOADED","message":"The server has more to do than it can; nothing was done","details":{"retry_after_seconds":` + seconds + `}}}` + "\n"
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		h := w.Header()
		h.Set("Content-Type", "application/json")
		h.Set("Cache-Control", "no-store")
		h.Set("Retry-After", seconds)
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, body)
	})
}
