package deadline

import (
	"context"
	"net/http"
	"time"
)

// Middleware gives the requests to a server their deadlines. The zero value
// takes what callers say, and bounds nothing else.
type Middleware struct {
	// Header is where callers say how many milliseconds they have left.
	// Defaults to DefaultHeader.
	Header string

	// Default is the time of a request that says nothing. Zero: any.
	Default time.Duration

	// Max is the most time that a request gets, whatever it says. Zero: any.
	Max time.Duration

	// Expired answers requests whose time is over before anything was
	// answered. Defaults to 504 with a body that says so.
	Expired http.Handler
}

// Wrap returns a handler whose context ends when the time of its request is
// over. Reads of the request's body and writes of the response end shortly
// after, or by the timeouts of the http.Server where those are shorter. It
// runs in the goroutine of the server; if it returns too late and has not
// answered, Expired does. Over HTTP/2, a client whose handler goes on for longer
// is told at once, by a reset of its stream.
func (m Middleware) Wrap(next http.Handler) http.Handler {
	if m.Expired == nil {
		m.Expired = http.HandlerFunc(expired)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch left, ok := m.left(r.Header); {
		case !ok:
			next.ServeHTTP(w, r)
		case left <= 0:
			m.Expired.ServeHTTP(w, r)
		default:
			m.serve(next, w, r, left)
		}
	})
}

// left is how much time a request gets.
func (m *Middleware) left(h http.Header) (left time.Duration, ok bool) {
	left, ok = Left(h, m.Header)
	if !ok && m.Default > 0 {
		left, ok = m.Default, true
	}
	if m.Max > 0 && (!ok || left > m.Max) {
		left, ok = m.Max, true
	}
	return left, ok
}

// grace is how much longer than the context reads go on, and writes than reads:
// the context ends first, and there is time for an answer that the handler had,
// also where it was stuck in a read. Over HTTP/2 the deadline of writes ends the
// whole stream, whether anything is written or not.
const grace = 20 * time.Millisecond

func (m *Middleware) serve(next http.Handler, w http.ResponseWriter, r *http.Request, left time.Duration) {
	ctx, cancel := context.WithTimeout(r.Context(), left)
	defer cancel()
	end, _ := ctx.Deadline() // an outer one may be earlier
	conn := http.NewResponseController(w)
	bound(conn, r, end)
	answer := &writer{ResponseWriter: w}
	next.ServeHTTP(answer, r.WithContext(ctx))
	if !answer.begun && !time.Now().Before(end) {
		_ = conn.SetWriteDeadline(time.Now().Add(time.Second))
		forget(w.Header())
		m.Expired.ServeHTTP(w, r)
	}
}

// bound ends reads and writes soon after the context. Where the server's own
// timeouts end them earlier, those stay: no caller can lengthen them. The
// errors of conn say that its writer knows no deadlines.
func bound(conn *http.ResponseController, r *http.Request, end time.Time) {
	read, write := serverTimeouts(r.Context())
	if r.ContentLength != 0 && sooner(end, read) {
		_ = conn.SetReadDeadline(end.Add(grace))
	}
	if sooner(end, write) {
		_ = conn.SetWriteDeadline(end.Add(2 * grace))
	}
}

func serverTimeouts(ctx context.Context) (read, write time.Duration) {
	if s, ok := ctx.Value(http.ServerContextKey).(*http.Server); ok {
		read, write = s.ReadTimeout, s.WriteTimeout
	}
	return read, write
}

// sooner reports whether a deadline comes before one of the server's, which
// began a moment ago.
func sooner(end time.Time, timeout time.Duration) bool {
	return timeout <= 0 || time.Until(end) < timeout-2*grace
}

// forget drops what a handler said of an answer that it did not give.
func forget(h http.Header) {
	for _, name := range []string{"Content-Length", "Content-Type", "Content-Encoding", "Content-Range", "Etag", "Last-Modified", "Cache-Control"} {
		h.Del(name)
	}
}

func expired(w http.ResponseWriter, _ *http.Request) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusGatewayTimeout)
	_, _ = w.Write([]byte(`{"error":{"code":"DEADLINE_EXCEEDED","message":"The time that the caller gave this request is over"}}` + "\n"))
}
