package gateway

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"slices"
	"strings"
)

const (
	forwardedFor   = "X-Forwarded-For"
	forwardedHost  = "X-Forwarded-Host"
	forwardedProto = "X-Forwarded-Proto"
)

// setForwarded describes the client to the upstream. It continues the request's own forwarding
// fields if the peer is trusted, and drops them in every spelling if not.
func (g *Gateway) setForwarded(in *http.Request, out http.Header, room *memory) {
	maps.DeleteFunc(out, func(name string, _ []string) bool { return isForwarded(name) })
	peer := peerOf(in)
	if g.trusted(peer) {
		g.continueForwarded(in, out, room, peer)
		return
	}
	room.setOrDrop(out, forwardedFor, peerText(in, peer))
	room.setOrDrop(out, forwardedHost, in.Host)
	room.setOrDrop(out, forwardedProto, scheme(in))
}

// continueForwarded keeps the fields of a trusted proxy and appends the proxy's address.
func (g *Gateway) continueForwarded(in *http.Request, out http.Header, room *memory, peer netip.Addr) {
	for name, values := range in.Header {
		if isForwarded(name) && !strings.Contains(name, "_") {
			out[name] = values
		}
	}
	out.Set(forwardedFor, joined(in.Header[forwardedFor], addrText(peer)))
	if out.Get(forwardedHost) == "" {
		room.setOrDrop(out, forwardedHost, in.Host)
	}
	if out.Get(forwardedProto) == "" {
		out.Set(forwardedProto, scheme(in))
	}
	if said := in.Header["Forwarded"]; len(said) > 0 {
		out.Set("Forwarded", joined(said, forwardedElement(in, peer)))
	}
}

// isForwarded treats underscores as hyphens, as many applications do.
func isForwarded(name string) bool {
	if name == "" || name[0]|' ' != 'x' && name[0]|' ' != 'f' {
		return false // most names, without the cost of lower case
	}
	return folds(name, "forwarded") || folds(name, "x-real-ip") ||
		len(name) >= len("x-forwarded-") && folds(name[:len("x-forwarded-")], "x-forwarded-")
}

// folds reports whether foldName(name) is the folded name, without the memory for it. Names
// are ASCII.
func folds(name, folded string) bool {
	if len(name) != len(folded) {
		return false
	}
	for i := range len(name) {
		c := name[i]
		switch {
		case c == '_':
			c = '-'
		case 'A' <= c && c <= 'Z':
			c |= ' '
		}
		if c != folded[i] {
			return false
		}
	}
	return true
}

// peerOf returns the remote address of the connection, unmapped and without zone, or the
// zero Addr if the connection has none.
func peerOf(r *http.Request) netip.Addr {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	return peer.Addr().Unmap().WithZone("")
}

func (g *Gateway) trusted(peer netip.Addr) bool {
	return slices.ContainsFunc(g.options.Trusted, func(p netip.Prefix) bool { return p.Contains(peer) })
}

func scheme(r *http.Request) string {
	if r.TLS != nil {
		return "https"
	}
	return "http"
}

func addrText(a netip.Addr) string {
	if !a.IsValid() {
		return "" // such as a Unix socket
	}
	return a.String()
}

// peerText is addrText of the request's peer. It finds an IPv4 address in the text of
// net/http, because such an address has only one form.
func peerText(r *http.Request, peer netip.Addr) string {
	text, _, _ := strings.Cut(r.RemoteAddr, ":")
	if peer.Is4() && len(text) >= len("0.0.0.0") {
		return text
	}
	return addrText(peer)
}

// forwardedElement returns one hop in the form of RFC 7239.
func forwardedElement(r *http.Request, peer netip.Addr) string {
	node := addrText(peer)
	if peer.Is6() {
		node = "[" + node + "]"
	}
	return fmt.Sprintf(`for=%q;proto=%s`, node, scheme(r))
}

func joined(values []string, last string) string {
	if last == "" {
		return strings.Join(values, ", ")
	}
	return strings.Join(append(slices.Clip(values), last), ", ")
}

// rewrite makes the outgoing request, independent of the upstream. Hop-by-hop fields,
// including those that Connection names, have been removed before, so a client cannot
// remove a field set here.
func (g *Gateway) rewrite(p *httputil.ProxyRequest) {
	x := exchangeOf(p.In)
	if x.path != nil {
		p.Out.URL.Path, p.Out.URL.RawPath = x.path.Path, x.path.RawPath
	}
	p.Out.Host = p.In.Host
	p.Out.URL.RawQuery = p.In.URL.RawQuery // unchanged: no rule reads it
	p.Out.Header[requestIDHeader] = x.one(x.id)
	g.setForwarded(p.In, p.Out.Header, x.memory)
	setTrace(p.In.Header, p.Out.Header, x.memory)
	keepWebSocket(p)
	g.passTrailers(p)
	x.route.request.apply(p.Out.Header, p.Out.Trailer)
	hideIdempotencyKey(p.Out.Header)
}

// hideIdempotencyKey keeps http.Transport from sending a request without a body again
// because of a field that any client may send, if a connection breaks: only the
// application knows whether it obeys the field. The transport looks for the canonical
// spelling. To upstreams, the spelling of a name means nothing.
func hideIdempotencyKey(h http.Header) {
	for _, name := range [...]string{"Idempotency-Key", "X-Idempotency-Key"} {
		if values, ok := h[name]; ok {
			delete(h, name)
			h[strings.ToLower(name)] = values
		}
	}
}

// keepWebSocket drops upgrades to any protocol other than WebSocket: an upstream that
// accepts "Upgrade: h2c" would open a tunnel without limits. The request is then an
// ordinary one, as HTTP allows.
func keepWebSocket(p *httputil.ProxyRequest) {
	h := p.Out.Header
	if upgrade := h["Upgrade"]; len(upgrade) == 0 || !strings.EqualFold(upgrade[0], "websocket") {
		delete(h, "Upgrade")
		delete(h, "Connection")
	}
}
