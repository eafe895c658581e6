package server

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// call handles a request with a JSON body and returns the status and the JSON value to
// answer.
type call func(r *http.Request, body []byte) (status int, answer any, err error)

// api wraps a call as an HTTP handler. The duration histogram, if not nil, measures from
// the end of reading the body to the decision, so a slow client does not count.
func (s *Server) api(duration prometheus.Observer, answer call) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := readBody(w, r, nil)
		if err != nil {
			s.fail(w, r, err)
			return
		}
		started := time.Now()
		status, value, err := answer(r, body)
		if duration != nil {
			duration.Observe(time.Since(started).Seconds())
		}
		if err != nil {
			s.fail(w, r, err)
			return
		}
		writeJSON(w, status, value)
	}
}
