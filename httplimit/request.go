package httplimit

import (
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"github.com/golang-jwt/jwt/v5"
)

// Request is an HTTP request with what a decider asks of it. Make one with
// [NewRequest]; the zero value says nothing of itself. It is for one goroutine.
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
	return &Request{Request: r, identity: identity}
}

// Addr returns the address of the client; see [Clients.Addr].
func (r *Request) Addr() netip.Addr {
	if !r.hasAddr && r.Request != nil {
		r.addr, r.hasAddr = r.who().Clients.Addr(r.Request), true
	}
	return r.addr
}

// Attribute returns what the request says of itself under a name, and false
// for what it does not say: "api_key", "ip" (the whole address), "method",
// "path" (as it stands in the URL, percent-encoded), "host" (in lower case,
// without port), "header:NAME", "query:NAME", "cookie:NAME" and "jwt:CLAIM" of
// a verified token. An empty value counts as absent, and so does one that
// servers read in different ways; see [Request.Refusal].
func (r *Request) Attribute(name string) (value string, ok bool) {
	value, err := r.attribute(name)
	return value, value != "" && err == nil
}

// Refusal returns why Attribute has no value for a name although the request
// says something there: because it says it several times, for example. Such a
// request is best refused, since the application may find an identity in it
// that was not counted. The error is a [*stint.Error] of code CodeInvalid.
func (r *Request) Refusal(name string) error {
	_, err := r.attribute(name)
	return err
}

// who reads the request: the zero identity unless NewRequest was given one.
func (r *Request) who() *Identity {
	if r.identity == nil {
		r.identity = &Identity{}
	}
	return r.identity
}

// target is the URL of the request; one without has the empty URL.
func (r *Request) target() *url.URL {
	if r.URL == nil {
		return &url.URL{}
	}
	return r.URL
}

func (r *Request) attribute(name string) (string, error) {
	if r.Request == nil {
		return "", nil
	}
	switch name {
	case "api_key":
		return r.who().apiKey(r)
	case "ip":
		return r.ip(), nil
	case "method":
		return r.method(), nil
	case "path":
		return r.target().EscapedPath(), nil
	case "host":
		return hostname(r.Host), nil
	}
	source, ok := parseSource(name)
	if !ok {
		return "", nil
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
