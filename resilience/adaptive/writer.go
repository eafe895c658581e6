package adaptive

import (
	"bufio"
	"context"
	"errors"
	"io"
	"mime"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"
)

// writer reports to a call when its response begins.
type writer struct {
	http.ResponseWriter

	call                     Call
	body                     *body // nil if the request has no body
	request                  *http.Request
	ignored                  bool // set by Ignore
	answered, left, returned bool
}

func (w *writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *writer) WriteHeader(status int) {
	if status >= 200 || status == http.StatusSwitchingProtocols {
		w.begin(status)
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *writer) Write(b []byte) (int, error) {
	w.begin(http.StatusOK)
	return w.ResponseWriter.Write(b)
}

func (w *writer) ReadFrom(r io.Reader) (int64, error) {
	w.begin(http.StatusOK)
	return io.Copy(w.ResponseWriter, r)
}

// Flush serves callers that do not use [http.ResponseController].
func (w *writer) Flush() { _ = w.FlushError() }

func (w *writer) FlushError() error {
	w.begin(http.StatusOK)
	return http.NewResponseController(w.ResponseWriter).Flush()
}

func (w *writer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err == nil {
		w.begin(http.StatusSwitchingProtocols)
	}
	return conn, buffered, err
}

// begin is called when the response begins; only the first call has an effect.
func (w *writer) begin(status int) {
	if w.answered {
		return
	}
	w.answered = true
	w.call.start = max(w.call.start, w.body.last())
	w.call.Answer(w.outcome(status))
	if status == http.StatusSwitchingProtocols || IsStream(w.Header()) {
		w.leave()
	}
}

func (w *writer) outcome(status int) Outcome {
	if w.ignored {
		return Ignored
	}
	return outcome(w.request.Context(), status)
}

func (w *writer) leave() {
	if !w.left {
		w.left = true
		w.call.Release()
	}
}

// end is called when the handler has returned or panics.
func (w *writer) end() {
	if !w.answered && !w.returned {
		w.answered = true
		w.call.Answer(Ignored)
	}
	w.begin(http.StatusOK)
	w.leave()
}

func outcome(ctx context.Context, status int) Outcome {
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded), status == http.StatusServiceUnavailable, status == http.StatusGatewayTimeout:
		return Failure
	case ctx.Err() != nil:
		return Ignored
	}
	return Success
}

// IsStream reports whether a response may last as long as its client stays.
func IsStream(h http.Header) bool {
	media, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	return err == nil && (media == "text/event-stream" || media == "multipart/x-mixed-replace" ||
		strings.HasPrefix(media, "application/grpc")) // also grpc-web and grpc+proto
}

// watch returns the request with a body that records when it was last read.
func (w *writer) watch(r *http.Request) *http.Request {
	if r.Body == nil || r.Body == http.NoBody || w.call.gate == nil {
		return r
	}
	w.body = &body{ReadCloser: r.Body, now: w.call.gate.now}
	watched := *r
	watched.Body = w.body
	return &watched
}

// body is a request's body. The handler may read it while the response begins.
type body struct {
	io.ReadCloser

	now  func() time.Duration
	read atomic.Int64
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.read.Store(int64(b.now()))
	return n, err
}

// last returns when the body was last read, or 0 for a nil body.
func (b *body) last() time.Duration {
	if b == nil {
		return 0
	}
	return time.Duration(b.read.Load())
}

// Ignore makes the gates that admitted this request ignore its response: the outcome is
// [Ignored]. Use it for a long poll, whose latency is not load, or for an error that is not
// caused by load. Call it before the response begins. Without a [Middleware] around the handler
// it does nothing.
func Ignore(w http.ResponseWriter) {
	for {
		if gated, ok := w.(*writer); ok {
			gated.ignored = true
		}
		wrapper, ok := w.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			return
		}
		w = wrapper.Unwrap()
	}
}
