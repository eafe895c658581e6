package adaptive

import (
	"io"
	"net/http"
	"sync/atomic"
	"time"
)

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
