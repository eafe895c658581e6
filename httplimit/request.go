package httplimit

import "net/http"

// Request is an HTTP request with what a decider asks of it. It is for one
// goroutine.
type Request struct {
	*http.Request

	identity *Identity
}

// NewRequest returns r as identity reads it.
func NewRequest(r *http.Request, identity *Identity) *Request {
	return &Request{Request: r, identity: identity}
}

// Attribute returns what the request says of itself under a name, and false
// for what it does not say.
func (r *Request) Attribute(name string) (value string, ok bool) { return "", false }
