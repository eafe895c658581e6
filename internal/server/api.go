package server

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// call is an endpoint that answers a JSON body with a JSON value.
type call func(r *http.Request, body []byte) (status int, answer any, err error)

// api makes an endpoint of a call. What duration measures (nil measures
// nothing) is from the body read to the decision made, without the pace of
// the client.
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
