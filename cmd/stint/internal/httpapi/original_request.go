package httpapi

import (
	"cmp"
	"net/http"
	"net/url"
	"strings"

	"github.com/stintdev/stint/internal/httpfield"
)

// The headers, in canonical spelling, in which proxies describe the original request.
// nginx is configured to send the first of each pair; Traefik and Caddy send the second
// by default.
var (
	uriHeaders    = [...]string{"X-Original-Uri", "X-Forwarded-Uri"}
	methodHeaders = [...]string{"X-Original-Method", "X-Forwarded-Method"}
)

const hostHeader = "X-Forwarded-Host"

// original returns the request that a proxy wants to forward. A peer that is not trusted
// speaks only for itself: the original request is then the path after /v1/auth and the method. A
// comma ends a line of its headers: Envoy and others join the lines of a field before they
// call, while the application gets them separately.
func (a *ForwardAuth) original(r *http.Request) (*http.Request, error) {
	uri, method, host := ownTarget(r), r.Method, r.Host
	if a.identity.Clients.TrustsPeer(r) {
		var err error
		if uri, err = headerValue(r.Header, uriHeaders, uri); err != nil {
			return nil, err
		}
		if method, err = headerValue(r.Header, methodHeaders, ""); err != nil {
			return nil, err
		}
		method, host = cmp.Or(method, r.Method), cmp.Or(lastOf(r.Header[hostHeader]), host)
	} else {
		a.warnOnce(r)
	}
	original := *r
	original.Header = httpfield.Separate(r.Header)
	original.URL, original.Method, original.Host = parseTarget(cmp.Or(uri, "/")), method, host
	return &original, nil
}

// ownTarget returns the path after /v1/auth with the query, or "" if there is none.
func ownTarget(r *http.Request) string {
	rest, ok := strings.CutPrefix(r.URL.EscapedPath(), AuthPath)
	if !ok { // the prefix itself was written with escapes
		rest = (&url.URL{Path: strings.TrimPrefix(r.URL.Path, AuthPath)}).EscapedPath()
	}
	rest = withoutParameters(rest)
	if rest == "" || rest == "/" {
		return ""
	}
	if r.URL.RawQuery != "" {
		rest += "?" + r.URL.RawQuery
	}
	return rest
}

// withoutParameters removes the parameters that statusesOf reads.
func withoutParameters(rest string) string {
	if !strings.HasPrefix(rest, ";") {
		return rest
	}
	if start := strings.IndexByte(rest, '/'); start >= 0 {
		return rest[start:]
	}
	return ""
}

// headerValue returns the value of the headers, or otherwise if there is none. A proxy
// forwards client headers that it does not write itself, and some proxies append a line
// to a header that they write. Two different values are therefore refused: one comes from
// the client, who could choose its own rule with it.
func headerValue(h http.Header, names [2]string, otherwise string) (string, error) {
	stated := otherwise
	for _, name := range names {
		for _, value := range h[name] {
			if stated != "" && value != "" && stated != value {
				return "", badRequest("%s contradicts what else names the original request (make the proxy remove the headers that it does not write)", name)
			}
			stated = cmp.Or(value, stated)
		}
	}
	return stated, nil
}

// parseTarget parses a forwarded target. A target that is not a URL is decided by its raw
// bytes rather than refused, because rules may still count it. The fragment is dropped:
// servers ignore it, so it must not change the path.
func parseTarget(target string) *url.URL {
	target, _, _ = strings.Cut(target, "#")
	if u, err := url.ParseRequestURI(target); err == nil && u.Opaque == "" {
		return u
	}
	path, query, _ := strings.Cut(target, "?")
	return &url.URL{Path: path, RawQuery: query}
}

// warnOnce logs the likely mistake once: a proxy that is not in TrustedProxies.
func (a *ForwardAuth) warnOnce(r *http.Request) {
	for _, name := range uriHeaders {
		if r.Header.Get(name) != "" {
			a.warned.Do(func() {
				a.errors.Logger.Warn("forward auth ignores the client that an untrusted peer names (if the peer is your proxy, add it to --trusted-proxies)", "peer", r.RemoteAddr, "header", name)
			})
		}
	}
}

// lastOf returns the last value in the lines of a header, which the nearest proxy added.
func lastOf(lines []string) string {
	if len(lines) == 0 {
		return ""
	}
	line := lines[len(lines)-1]
	return strings.TrimSpace(line[strings.LastIndexByte(line, ',')+1:])
}
