package adaptive

import (
	"io"
	"net/http"
	"strconv"
	"time"
)

// Middleware puts a [Gate] before a handler. Without a Gate it admits every request.
type Middleware struct {
	Gate Gate

	// Refused answers requests that are shed. The default answers 503 with a short text and a
	// Retry-After of one second.
	Refused http.Handler
}

// Wrap returns a handler that admits requests through the gate. A request's latency ends
// when the response begins. It starts at the last read of the request's body, so that
// clients which send slowly do not look like load.
//
// A request frees its place when the handler returns, or when the connection becomes a
// WebSocket or a stream of events. Responses of 503 and 504 are failures ([Failure]), and so are
// responses after the deadline of the request's context. Requests whose client has left,
// and those passed to [Ignore], are [Ignored].
func (m Middleware) Wrap(next http.Handler) http.Handler {
	if m.Refused == nil {
		m.Refused = Refusal(time.Second)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		call, ok := begin(m.Gate)
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

// Refusal returns a handler that answers 503 with a Retry-After in whole seconds, rounded
// up.
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
