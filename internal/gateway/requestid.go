package gateway

import (
	"crypto/rand"
	"net/http"
)

const maxRequestID = 128 // characters

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
