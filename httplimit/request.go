package httplimit

import (
	"fmt"
	"net/http"
	"net/netip"
	"net/url"

	"github.com/stintdev/stint/internal/hostname"
)

// Request is an HTTP request with the identity of its client, for a [Decider]. Make
// one with [NewRequest]; the zero value has no attributes. It is for one goroutine.
type Request struct {
	*http.Request

	identity *Identity
	apiKey   []Source // nil: those of the identity
	addr     netip.Addr
	hasAddr  bool   // addr is set
	token    *token // nil until it is read
}

// NewRequest returns r, with its client identified by identity; nil means the zero
// Identity. A server that decides for another server passes a request with the method,
// URL, host and headers of the original.
func NewRequest(r *http.Request, identity *Identity) *Request {
	return &Request{Request: r, identity: identity}
}

// Identity returns the identity that [NewRequest] was given, or the zero Identity.
func (r *Request) Identity() *Identity {
	if r.identity == nil {
		r.identity = &Identity{}
	}
	return r.identity
}

// SetAPIKey replaces the sources of the API key, for a [Decider] whose rules say where
// requests have it. Nil restores those of the identity. The slice must not be changed
// while the request is in use.
func (r *Request) SetAPIKey(sources []Source) { r.apiKey = sources }

// Addr returns the address of the client; see [Clients.Addr].
func (r *Request) Addr() netip.Addr {
	if !r.hasAddr && r.Request != nil {
		r.addr, r.hasAddr = r.Identity().Clients.Addr(r.Request), true
	}
	return r.addr
}

// Attribute returns the value of an attribute, and false if the request has none. The
// attributes are "api_key", "ip" (the whole address), "method", "path" (as in the URL,
// percent-encoded), "host" (in lower case, without port), "header:NAME", "query:NAME",
// "cookie:NAME" and "jwt:CLAIM" of a verified token. An empty value counts as absent,
// and so does a value that servers read differently; see [Request.Refusal].
func (r *Request) Attribute(name string) (value string, ok bool) {
	value, err := r.attribute(name)
	return value, value != "" && err == nil
}

// Refusal returns an error if the request has an attribute that servers read
// differently, for example because it is sent several times. [Request.Attribute] then
// returns no value. Refuse such a request: the application could see another identity
// than the one that was counted. The error is a [*stint.Error] of code CodeInvalid.
func (r *Request) Refusal(name string) error {
	_, err := r.attribute(name)
	return err
}

// target returns the URL of the request, or an empty URL if it has none.
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
		if r.apiKey != nil {
			return firstOf(r.apiKey, r)
		}
		return r.Identity().apiKey(r)
	case "ip":
		return r.ip(), nil
	case "method":
		return r.method(), nil
	case "path":
		return r.target().EscapedPath(), nil
	case "host":
		return hostname.Normalize(r.Host), nil
	}
	source, ok := parseSource(name)
	if !ok || source.scheme != "" {
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

// method returns the request's method. An empty one means GET, as in http.Request.
func (r *Request) method() string {
	if r.Method == "" {
		return http.MethodGet
	}
	return r.Method
}

// Identity says how the api_key and the ip of requests are read. The zero value reads
// the token of "Authorization: Bearer", then X-API-Key, and trusts no proxy. It must
// not change once it is in use.
//
// An API key is only what a client claims; the handler must check whether the key
// exists. Only the claims of verified tokens are proof.
type Identity struct {
	// APIKey lists where a request may have its API key; the first source with a value
	// counts. Defaults to bearer, then header:X-API-Key.
	APIKey []Source
	// Clients finds the client's address.
	Clients Clients
	// Tokens verifies tokens, such as JSON Web Tokens. If nil, no request has claims.
	Tokens TokenVerifier
	// TokenFrom is where a request has its token. Defaults to bearer.
	TokenFrom Source
	// RejectInvalidTokens makes the middleware answer 401 to a request whose token is
	// invalid, and 503 if the token cannot be verified at the moment. The request is
	// still counted, but not under a claim of the token. By default such a request
	// counts as one without a token.
	RejectInvalidTokens bool
}

// standardSources returns the default of Identity.APIKey.
func standardSources() [2]Source {
	return [2]Source{{kind: fromBearer}, {kind: fromHeader, name: "X-Api-Key"}}
}

// Validate returns an error if APIKey has a claim without Tokens to verify it, if tokens
// are to be rejected without Tokens, if TokenFrom is a claim, or if Clients has a network
// that matches nothing.
func (id *Identity) Validate() error {
	for _, s := range id.APIKey {
		if s.kind == fromClaim && id.Tokens == nil {
			return fmt.Errorf("%v: %w", s, errNoTokens)
		}
	}
	switch {
	case id.TokenFrom.kind == fromClaim:
		return fmt.Errorf("%v: a token cannot be read from a claim (read it from bearer, a header, a query or a cookie)", id.TokenFrom)
	case id.RejectInvalidTokens && id.Tokens == nil:
		return fmt.Errorf("invalid tokens are to be rejected: %w", errNoTokens)
	}
	return id.Clients.validate()
}

func (id *Identity) apiKey(r *Request) (string, error) {
	if id.APIKey == nil {
		standard := standardSources()
		return firstOf(standard[:], r)
	}
	return firstOf(id.APIKey, r)
}

func firstOf(sources []Source, r *Request) (string, error) {
	for _, s := range sources {
		if value, err := s.read(r); value != "" || err != nil {
			return value, err
		}
	}
	return "", nil
}
