package slowclient

import (
	"net/http"
	"time"
)

// toReaders cuts off a client that accepts no part of an answer for the timeout. Over
// HTTP/2 the window of a single answer may be closed on a healthy connection, which the
// bound of the connection does not detect.
func toReaders(timeout time.Duration, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor < 2 {
			next.ServeHTTP(w, r)
			return
		}
		a := &awaitedAnswer{ResponseWriter: w, control: http.NewResponseController(w), timeout: timeout}
		next.ServeHTTP(a, r)
		if a.unflushed { // otherwise net/http would write it without a deadline
			_ = a.FlushError()
		}
	})
}

// awaitedAnswer is an answer each part of which the client must accept in time. There is
// no bound between parts.
type awaitedAnswer struct {
	http.ResponseWriter

	control   *http.ResponseController
	timeout   time.Duration
	unflushed bool
}

// answerPart is the size of one HTTP/2 frame, small enough for a slow client to accept in
// time.
const answerPart = 16 << 10

// Unwrap lets [http.ResponseController] find the underlying writer.
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

// FlushError is called by [http.ResponseController].
func (a *awaitedAnswer) FlushError() error {
	a.unflushed = false
	a.begin()
	defer a.end()
	return a.control.Flush()
}

func (a *awaitedAnswer) begin() { _ = a.control.SetWriteDeadline(time.Now().Add(a.timeout)) }
func (a *awaitedAnswer) end()   { _ = a.control.SetWriteDeadline(time.Time{}) }
