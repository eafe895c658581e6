package server

import (
	"net/http"
	"time"
)

// toReaders cuts off who lets no part of an answer be written for the timeout.
// Over HTTP/2 a connection may be well and one answer's window shut; a
// connection's own bound does not see that.
func toReaders(timeout time.Duration, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor < 2 {
			next.ServeHTTP(w, r)
			return
		}
		a := &awaitedAnswer{ResponseWriter: w, control: http.NewResponseController(w), timeout: timeout}
		next.ServeHTTP(a, r)
		if a.unflushed { // else it would be written when nobody looks
			_ = a.FlushError()
		}
	})
}

// awaitedAnswer is an answer each part of which must be taken in time.
// Between parts it may be silent.
type awaitedAnswer struct {
	http.ResponseWriter

	control   *http.ResponseController
	timeout   time.Duration
	unflushed bool
}

// answerPart is a frame of HTTP/2: a slow client takes that in time.
const answerPart = 16 << 10

// Unwrap is for [http.ResponseController].
func (a *awaitedAnswer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

func (a *awaitedAnswer) Write(p []byte) (n int, err error) {
	a.unflushed = true
	defer a.end()
	for {
		a.begin()
		part := p[n:min(n+answerPart, len(p))]
		wrote, err := a.ResponseWriter.Write(part)
		if n += wrote; err != nil || n == len(p) {
			return n, err
		}
	}
}

// FlushError is for [http.ResponseController].
func (a *awaitedAnswer) FlushError() error {
	a.unflushed = false
	a.begin()
	defer a.end()
	return a.control.Flush()
}

func (a *awaitedAnswer) begin() { _ = a.control.SetWriteDeadline(time.Now().Add(a.timeout)) }
func (a *awaitedAnswer) end()   { _ = a.control.SetWriteDeadline(time.Time{}) }
