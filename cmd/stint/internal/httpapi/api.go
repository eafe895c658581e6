package httpapi

import (
	"net/http"
	"time"

	"github.com/stintdev/stint/cmd/stint/internal/metrics"
)

// call handles a request with a JSON body and returns the status and the JSON value to
// answer.
type call func(r *http.Request, body []byte) (status int, answer any, err error)

// api wraps a call as an HTTP handler. The duration of a check of the
// surface counts from the end of reading the body, so a slow client does not count.
func (s *Server) api(surface metrics.Surface, answer call) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := readBody(w, r, nil)
		if err != nil {
			s.fail(w, r, err)
			return
		}
		started := time.Now()
		status, value, err := answer(r, body)
		s.metrics.ObserveCheck(surface, time.Since(started))
		if err != nil {
			s.fail(w, r, err)
			return
		}
		writeJSON(w, status, value)
	}
}
