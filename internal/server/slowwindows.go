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
		a := &awaitedAnswer{w, http.NewResponseController(w), timeout}
		defer a.begin() // what the handler leaves is written when it has returned
		next.ServeHTTP(a, r)
	})
}

// awaitedAnswer is an answer each part of which must be taken in time.
// Between parts it may be silent.
type awaitedAnswer struct {
	http.ResponseWriter

	control *http.ResponseController
	timeout time.Duration
}

// Unwrap is for [http.ResponseController].
func (a *awaitedAnswer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

func (a *awaitedAnswer) Write(p []byte) (int, error) {
	a.begin()
	defer a.end()
	return a.ResponseWriter.Write(p)
}

// FlushError is for [http.ResponseController].
func (a *awaitedAnswer) FlushError() error {
	a.begin()
	defer a.end()
	return a.control.Flush()
}

func (a *awaitedAnswer) begin() { _ = a.control.SetWriteDeadline(time.Now().Add(a.timeout)) }
func (a *awaitedAnswer) end()   { _ = a.control.SetWriteDeadline(time.Time{}) }
