package deadline

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"time"
)

// Middleware applies deadlines to the requests of a server. The zero value applies the
// deadlines that callers send, and no other.
type Middleware struct {
	// Header is the header in which callers send their time left, in milliseconds.
	// Defaults to DefaultHeader.
	Header string

	// Default is the time of a request without a deadline. Zero: no bound.
	Default time.Duration

	// Max bounds the time of every request, whatever its caller sends. Zero: no bound.
	Max time.Duration

	// Expired answers requests whose time is over before the response began. Defaults to
	// 504 with a body that says so.
	Expired http.Handler
}

// Wrap returns a handler whose context ends when the time of its request is over. Reads
// of the request's body and writes of the response end shortly after, or by the timeouts
// of the http.Server where those are shorter.
//
// The handler runs in the goroutine of the server. If it returns too late without an
// answer, Expired answers. Over HTTP/2, a stream whose handler runs longer is reset at
// once.
func (m Middleware) Wrap(next http.Handler) http.Handler {
	if m.Expired == nil {
		m.Expired = http.HandlerFunc(expired)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch left, cause := m.left(r); {
		case cause == nil:
			next.ServeHTTP(w, r)
		case left <= 0:
			m.Expired.ServeHTTP(w, r)
		default:
			m.serve(next, w, r, left, cause)
		}
	})
}

// Arrived returns a handler that records when a request with a deadline arrives; a
// Middleware further in counts its time from then. The context that next gets does not
// end at the deadline.
//
// Put it around work that no caller may cut short, such as the decision of a rate
// limiter. If the Middleware itself were there, a caller could send a deadline so short
// that the decision fails, and a limiter that admits requests when it cannot decide would
// admit every one of that caller.
func (m Middleware) Arrived(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, ok := Left(r.Header, m.Header); ok {
			r = r.WithContext(context.WithValue(r.Context(), arrivedKey{}, time.Now()))
		}
		next.ServeHTTP(w, r)
	})
}

type arrivedKey struct{}

// TimeLeft returns the time that the caller of a request has left: what it sent, less the
// time since [Middleware.Arrived]. It is at most 0 when that time is over. ok is false for
// a request without a deadline.
func (m Middleware) TimeLeft(r *http.Request) (left time.Duration, ok bool) {
	left, ok = Left(r.Header, m.Header)
	if arrived, noted := r.Context().Value(arrivedKey{}).(time.Time); ok && noted {
		left -= time.Since(arrived)
	}
	return left, ok
}

// left returns how much time a request gets, and the cause for its context to end when
// that time is over. The cause is nil for a request without a bound.
func (m *Middleware) left(r *http.Request) (left time.Duration, cause error) {
	left, ok := m.TimeLeft(r)
	if ok {
		cause = ErrCallersTime
	} else if m.Default > 0 {
		left, cause = m.Default, ErrServersTime
	}
	if m.Max > 0 && (cause == nil || left > m.Max) {
		left, cause = m.Max, ErrServersTime
	}
	return left, cause
}

// The causes ([context.Cause]) of a context that [Middleware] ended. To [errors.Is] each
// is a [context.DeadlineExceeded] too. They tell whether a slow call is the fault of the
// one who serves it: a caller can ask for less time than any server needs.
var (
	ErrCallersTime error = &expiredError{"deadline: the time that the caller gives this request is over"}
	ErrServersTime error = &expiredError{"deadline: the time that the server gives this request is over"} // Default or Max
)

type expiredError struct{ text string }

func (e *expiredError) Error() string { return e.text }
func (e *expiredError) Timeout() bool { return true }
func (e *expiredError) Unwrap() error { return context.DeadlineExceeded }

// grace is how much later than the context reads end, and writeGrace how much later writes
// do. The context ends first, so that a handler has time to send its response, even one
// that was blocked in a read. Over HTTP/2 the deadline of writes ends the whole stream,
// whether or not anything is written: if it came too soon, a busy server that is about to
// answer would reset the stream instead.
const (
	grace      = 20 * time.Millisecond
	writeGrace = 250 * time.Millisecond
)

func (m *Middleware) serve(next http.Handler, w http.ResponseWriter, r *http.Request, left time.Duration, cause error) {
	ctx, cancel := context.WithTimeoutCause(r.Context(), left, cause)
	defer cancel()
	end, _ := ctx.Deadline() // the deadline of an outer context may be earlier
	conn := http.NewResponseController(w)
	bound(conn, r, end)
	if r.ContentLength != 0 {
		defer endReads(ctx, conn)()
	}
	answer := &writer{ResponseWriter: w}
	next.ServeHTTP(answer, r.WithContext(ctx))
	if !answer.begun && !time.Now().Before(end) {
		_ = conn.SetWriteDeadline(time.Now().Add(time.Second))
		forget(w.Header())
		m.Expired.ServeHTTP(w, r)
	}
}

// bound ends reads and writes soon after the context. It keeps the server's own timeouts
// where they are earlier, so that no caller can lengthen them. It ignores the errors of
// conn, which mean that the writer does not support deadlines.
func bound(conn *http.ResponseController, r *http.Request, end time.Time) {
	read, write := serverTimeouts(r.Context())
	if r.ContentLength != 0 && sooner(end, read) {
		_ = conn.SetReadDeadline(end.Add(grace))
	}
	if sooner(end, write) {
		_ = conn.SetWriteDeadline(end.Add(writeGrace))
	}
}

// endReads ends the reads of a body after the deadline, until stop is called. A wrapper of
// the body that gives every read a deadline of its own replaces the one that bound has
// set. The client of net/http then waits for such a read before it returns, so that the
// answer would wait for a client that has stopped sending.
func endReads(ctx context.Context, conn *http.ResponseController) (stop func()) {
	returned, ended := make(chan struct{}), make(chan struct{})
	cancel := context.AfterFunc(ctx, func() {
		defer close(ended)
		next := time.NewTicker(grace)
		defer next.Stop()
		for errors.Is(ctx.Err(), context.DeadlineExceeded) {
			select {
			case <-returned:
				return
			case <-next.C:
				_ = conn.SetReadDeadline(time.Now())
			}
		}
	})
	return func() {
		close(returned)
		if !cancel() {
			<-ended // the connection may serve another request afterwards
		}
	}
}

func serverTimeouts(ctx context.Context) (read, write time.Duration) {
	if s, ok := ctx.Value(http.ServerContextKey).(*http.Server); ok {
		read, write = s.ReadTimeout, s.WriteTimeout
	}
	return read, write
}

// sooner reports whether a deadline comes before a timeout of the server, which began a
// moment ago.
func sooner(end time.Time, timeout time.Duration) bool {
	return timeout <= 0 || time.Until(end) < timeout-writeGrace
}

// forget removes the headers of a response that the handler did not send.
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

// writer records whether the response has begun. It implements http.Flusher,
// http.Hijacker and io.ReaderFrom, and Unwrap for http.ResponseController.
type writer struct {
	http.ResponseWriter
	begun bool
}

func (w *writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *writer) WriteHeader(status int) {
	w.begun = w.begun || status >= 200 || status == http.StatusSwitchingProtocols
	w.ResponseWriter.WriteHeader(status)
}

func (w *writer) Write(b []byte) (int, error) {
	w.begun = true
	return w.ResponseWriter.Write(b)
}

func (w *writer) ReadFrom(r io.Reader) (int64, error) {
	n, err := io.Copy(w.ResponseWriter, r)
	w.begun = w.begun || n > 0
	return n, err
}

// Flush serves callers that do not use [http.ResponseController].
func (w *writer) Flush() { _ = w.FlushError() }

func (w *writer) FlushError() error {
	w.begun = true
	return http.NewResponseController(w.ResponseWriter).Flush()
}

func (w *writer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := http.NewResponseController(w.ResponseWriter).Hijack()
	w.begun = w.begun || err == nil
	return conn, buffered, err
}
