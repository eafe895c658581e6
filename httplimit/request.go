package httplimit

import (
	"net/http"
	"net/netip"
	"strings"

	"github.com/golang-jwt/jwt/v5"
)

// Request is an HTTP request with what a decider asks of it. It is for one
// goroutine.
type Request struct {
	*http.Request

	identity *Identity
	addr     netip.Addr
	hasAddr  bool // addr was looked for
	claims   jwt.MapClaims
	token    tokenState
}

// tokenState is what is known of the request's token.
type tokenState uint8

const (
	tokenUnread tokenState = iota
	tokenAbsent
	tokenVerified
	tokenInvalid
)

// NewRequest returns r as identity reads it; a nil identity is the zero one.
// A server that decides on behalf of another request passes one that stands
// for it, with its method, URL, host and headers.
func NewRequest(r *http.Request, identity *Identity) *Request {
	if identity == nil {
		identity = &Identity{}
	}
	return &Request{Request: r, identity: identity}
}

// Addr returns the address of the client; see [Clients.Addr].
func (r *Request) Addr() netip.Addr {
	if !r.hasAddr {
		r.addr, r.hasAddr = r.identity.Clients.Addr(r.Request), true
	}
	return r.addr
}

// Attribute returns what the request says of itself under a name, and false
// for what it does not say: "api_key", "ip" (the whole address), "method",
// "path" (as it stands in the URL, percent-encoded), "host" (in lower case,
// without port), "header:NAME", "query:NAME", "cookie:NAME" (of each the
// first) and "jwt:CLAIM" of a verified token. An empty value counts as
// absent.
func (r *Request) Attribute(name string) (value string, ok bool) {
	value = r.attribute(name)
	return value, value != ""
}

func (r *Request) attribute(name string) string {
	switch name {
	case "api_key":
		return r.identity.apiKey(r)
	case "ip":
		return r.ip()
	case "method":
		return r.method()
	case "path":
		return r.URL.EscapedPath()
	case "host":
		return hostname(r.Host)
	}
	source, err := ParseSource(name)
	if err != nil {
		return ""
	}
	return source.read(r)
}

func (r *Request) ip() string {
	if addr := r.Addr(); addr.IsValid() {
		return addr.String()
	}
	return ""
}

// method: an empty one is GET, as in http.Request.
func (r *Request) method() string {
	if r.Method == "" {
		return http.MethodGet
	}
	return r.Method
}

// hostname is a Host header without its port and a final dot.
func hostname(host string) string {
	if colon := strings.LastIndexByte(host, ':'); colon > strings.LastIndexByte(host, ']') {
		host = host[:colon]
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}
