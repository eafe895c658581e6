package gateway

import (
	"crypto/rand"
	"net/http"
)

const maxRequestID = 128 // characters

// WithRequestID gives every request an id and writes it into the response before next
// sees it, so that the answers of a limiter in front of the gateway carry the id too.
func WithRequestID(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := requestID(r.Header)
		r.Header.Set(requestIDHeader, id)
		w.Header().Set(requestIDHeader, id)
		next.ServeHTTP(w, r)
	})
}

// requestID returns the id in the request if it is fit for logs, or a new id of 26
// letters and digits.
func requestID(h http.Header) string {
	if ids := h[requestIDHeader]; len(ids) == 1 && saneID(ids[0]) {
		return ids[0]
	}
	return rand.Text()
}

// saneID allows 1 to 128 visible ASCII characters.
func saneID(id string) bool {
	if id == "" || len(id) > maxRequestID {
		return false
	}
	for i := range len(id) {
		if id[i] <= ' ' || id[i] > '~' {
			return false
		}
	}
	return true
}
