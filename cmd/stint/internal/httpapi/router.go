package httpapi

import (
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/stintdev/stint/internal/secret"
)

// Router finds the endpoint of a path by exact comparison. It neither cleans paths nor
// redirects, because forward auth carries the path of another request behind its own.
type Router struct {
	Paths   map[string]Route
	Folders []Folder
	Errors  ErrorWriter
	// Elsewhere says, in the error of an unknown path, where other endpoints are. May be empty.
	Elsewhere string
}

// Route is the endpoint of one path. GET allows HEAD too; an empty method allows any.
type Route struct {
	Method string
	Handle http.HandlerFunc
}

// Folder is a prefix whose paths have one endpoint. Parameters may follow the prefix,
// after a semicolon.
type Folder struct {
	Prefix string // without a slash at its end
	Handle http.HandlerFunc
}

func (t *Router) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	for _, f := range t.Folders {
		if rest, ok := strings.CutPrefix(r.URL.Path, f.Prefix); ok && (rest == "" || rest[0] == '/' || rest[0] == ';') {
			f.Handle(w, r)
			return
		}
	}
	found, ok := t.Paths[r.URL.Path]
	switch {
	case !ok:
		t.Errors.write(w, r, &apiError{http.StatusNotFound, codeNotFound, "there is nothing at " + shown(r.URL.Path) + t.Elsewhere})
	case !found.allows(r.Method):
		w.Header().Set("Allow", found.allowed())
		t.Errors.write(w, r, &apiError{http.StatusMethodNotAllowed, codeMethod, "use " + found.allowed()})
	default:
		found.Handle(w, r)
	}
}

func (f Route) allows(method string) bool {
	return f.Method == "" || method == f.Method || f.Method == http.MethodGet && method == http.MethodHead
}

func (f Route) allowed() string {
	if f.Method == http.MethodGet {
		return "GET, HEAD"
	}
	return f.Method
}

// TokenHeader carries the token of a proxy whose Authorization field belongs to its
// client.
const TokenHeader = "X-Stint-Token"

// guard requires a token from every request, unless the token is nil.
type guard struct {
	token   *secret.Text
	refused func()
	errors  ErrorWriter
}

// wrap passes on requests that carry the token, with the token removed: nothing behind
// the guard may mistake it for the identity of a caller.
func (g *guard) wrap(next http.HandlerFunc) http.HandlerFunc {
	if g.token == nil {
		return next
	}
	return func(w http.ResponseWriter, r *http.Request) {
		if !g.take(r.Header) {
			g.refused()
			g.errors.Unauthorized(w, r, "the token is missing or wrong")
			return
		}
		next(w, r)
	}
}

// take reports whether the headers carry the token, and removes it from them.
func (g *guard) take(h http.Header) bool {
	if own := h.Get(TokenHeader); own != "" {
		h.Del(TokenHeader)
		return g.token.Is([]byte(own))
	}
	scheme, token, _ := strings.Cut(h.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") || !g.token.Is([]byte(strings.TrimSpace(token))) {
		return false
	}
	h.Del("Authorization")
	return true
}

// OwnPagesOnly refuses requests that a browser sends for a page of another site. A
// malicious page can make each visitor's browser send requests to addresses that the
// page's author cannot reach, and so charge other callers' keys. The browser names the
// page's site in Origin or Sec-Fetch-Site.
func (e ErrorWriter) OwnPagesOnly(next http.HandlerFunc, refusal string) http.HandlerFunc {
	origins := http.NewCrossOriginProtection()
	origins.SetDenyHandler(e.forbid(refusal))
	return origins.Handler(next).ServeHTTP
}

// LoopbackHostOnly refuses requests whose Host does not name this machine. In a DNS
// rebinding attack, the author of a page points the page's own name at 127.0.0.1. The
// browser then treats the request as same-site, and only the Host reveals the attack.
// Browsers always send a Host, so a request without one passes.
func (e ErrorWriter) LoopbackHostOnly(next http.HandlerFunc, refusal string) http.HandlerFunc {
	refuse := e.forbid(refusal)
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Host != "" && !Loopback(r.Host) && !Loopback(r.Host+":0") {
			refuse(w, r)
			return
		}
		next(w, r)
	}
}

func (e ErrorWriter) forbid(refusal string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { e.Forbidden(w, r, refusal) }
}

// Forbidden answers 403 with a reason.
func (e ErrorWriter) Forbidden(w http.ResponseWriter, r *http.Request, refusal string) {
	e.write(w, r, &apiError{http.StatusForbidden, codeForbidden, refusal})
}

// Loopback reports whether only this machine can reach the address.
func Loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && ip.Unmap().IsLoopback()
}
