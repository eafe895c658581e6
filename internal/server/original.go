package server

import (
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"github.com/stintdev/stint/httplimit"
	"github.com/stintdev/stint/internal/httpfield"
)

// The headers, in canonical spelling, in which proxies say what their client asked for. nginx is told
// to send the first ones; Traefik and Caddy send the second ones by themselves.
var (
	uriHeaders    = [...]string{"X-Original-Uri", "X-Forwarded-Uri"}
	methodHeaders = [...]string{"X-Original-Method", "X-Forwarded-Method"}
)

const hostHeader = "X-Forwarded-Host"

// originals finds the request that a proxy asks about. Who is not trusted
// speaks for itself alone: then it is the path after /v1/auth and the method.
type originals struct {
	clients httplimit.Clients
	log     *slog.Logger
	warned  sync.Once
}

// of returns the original request. A comma ends a line of its headers, for Envoy and
// others join the lines of a field before they ask, and the application gets them
// apart.
func (o *originals) of(r *http.Request) (*http.Request, error) {
	uri, method, host := ownTarget(r), r.Method, r.Host
	if o.clients.TrustsPeer(r) {
		var err error
		if uri, err = spoken(r.Header, uriHeaders, uri); err != nil {
			return nil, err
		}
		if method, err = spoken(r.Header, methodHeaders, ""); err != nil {
			return nil, err
		}
		method, host = orElse(method, r.Method), orElse(lastOf(r.Header[hostHeader]), host)
	} else {
		o.warnOnce(r)
	}
	original := *r
	original.Header = httpfield.Separate(r.Header)
	original.URL, original.Method, original.Host = parseTarget(orElse(uri, "/")), method, host
	return &original, nil
}

// ownTarget is the path after /v1/auth with the query, "" when there is none.
func ownTarget(r *http.Request) string {
	rest, ok := strings.CutPrefix(r.URL.EscapedPath(), authPath)
	if !ok { // the prefix itself was written with escapes
		rest = (&url.URL{Path: strings.TrimPrefix(r.URL.Path, authPath)}).EscapedPath()
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

// withoutParameters removes those that statusesOf reads.
func withoutParameters(rest string) string {
	if !strings.HasPrefix(rest, ";") {
		return rest
	}
	if start := strings.IndexByte(rest, '/'); start >= 0 {
		return rest[start:]
	}
	return ""
}

// spoken is what the headers say, else otherwise. A proxy passes on those
// headers of its client that it does not write itself, and some add a line to
// one that they do write, so two that differ are refused: one of them is the
// client's, who would choose its own rule.
func spoken(h http.Header, names [2]string, otherwise string) (string, error) {
	said := otherwise
	for _, name := range names {
		for _, value := range h[name] {
			if said != "" && value != "" && said != value {
				return "", badRequest("%s contradicts what else names the original request (make the proxy remove the headers that it does not write)", name)
			}
			said = orElse(value, said)
		}
	}
	return said, nil
}

// parseTarget reads what a proxy passed on. A target that is no URL is
// decided by its bytes rather than refused: the rules may well count it. A
// fragment, which no server looks at, must not make it another path.
func parseTarget(target string) *url.URL {
	target, _, _ = strings.Cut(target, "#")
	if u, err := url.ParseRequestURI(target); err == nil && u.Opaque == "" {
		return u
	}
	path, query, _ := strings.Cut(target, "?")
	return &url.URL{Path: path, RawQuery: query}
}

// warnOnce tells operators of the likely mistake: a proxy that is not trusted.
func (o *originals) warnOnce(r *http.Request) {
	for _, name := range uriHeaders {
		if r.Header.Get(name) != "" {
			o.warned.Do(func() {
				o.log.Warn("forward auth ignores what a peer says of its client: name it in --trusted-proxies if it is your proxy", "peer", r.RemoteAddr, "header", name)
			})
		}
	}
}

// lastOf is the last value of the lines of a header: the one that the nearest
// proxy added.
func lastOf(lines []string) string {
	if len(lines) == 0 {
		return ""
	}
	line := lines[len(lines)-1]
	return strings.TrimSpace(line[strings.LastIndexByte(line, ',')+1:])
}

func orElse(value, otherwise string) string {
	if value == "" {
		return otherwise
	}
	return value
}
