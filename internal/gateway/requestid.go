package gateway

import (
	"crypto/rand"
	"net/http"
)

const maxRequestID = 128 // characters

// WithRequestID gives every request an id, and writes it into the response,
// before next sees them: so the answers of a limiter between this and the
// gateway carry it as those of the gateway do.
func WithRequestID(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := requestID(r.Header)
		r.Header.Set(requestIDHeader, id)
		w.Header().Set(requestIDHeader, id)
		next.ServeHTTP(w, r)
	})
}

// requestID returns the id that the request brings, if it brings one and that
// is fit for logs, else a new one of 26 letters and digits.
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
