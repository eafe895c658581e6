package gateway

import (
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

const (
	forwardedFor   = "X-Forwarded-For"
	forwardedHost  = "X-Forwarded-Host"
	forwardedProto = "X-Forwarded-Proto"
)

// setForwarded says who the client is. What the request says itself is
// continued if its peer is trusted, and else dropped in every spelling.
func (g *Gateway) setForwarded(in *http.Request, out http.Header) {
	maps.DeleteFunc(out, func(name string, _ []string) bool { return isForwarded(name) })
	peer := peerOf(in)
	if g.trusted(peer) {
		g.continueForwarded(in, out, peer)
		return
	}
	setOrDrop(out, forwardedFor, addrText(peer))
	setOrDrop(out, forwardedHost, in.Host)
	out.Set(forwardedProto, scheme(in))
}

// continueForwarded keeps what a trusted proxy says and adds the proxy.
func (g *Gateway) continueForwarded(in *http.Request, out http.Header, peer netip.Addr) {
	for name, values := range in.Header {
		if isForwarded(name) && !strings.Contains(name, "_") {
			out[name] = values
		}
	}
	out.Set(forwardedFor, joined(in.Header[forwardedFor], addrText(peer)))
	if out.Get(forwardedHost) == "" {
		setOrDrop(out, forwardedHost, in.Host)
	}
	if out.Get(forwardedProto) == "" {
		out.Set(forwardedProto, scheme(in))
	}
	if said := in.Header["Forwarded"]; len(said) > 0 {
		out.Set("Forwarded", joined(said, forwardedElement(in, peer)))
	}
}

// isForwarded takes underscores for hyphens, as many an application does.
func isForwarded(name string) bool {
	name = strings.ReplaceAll(strings.ToLower(name), "_", "-")
	return name == "forwarded" || name == "x-real-ip" || strings.HasPrefix(name, "x-forwarded-")
}

// peerOf is the address of the other end of the connection, unmapped and
// without zone; the zero Addr for a connection without one.
func peerOf(r *http.Request) netip.Addr {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	return peer.Addr().Unmap().WithZone("")
}

func (g *Gateway) trusted(peer netip.Addr) bool {
	for _, p := range g.options.Trusted {
		if p.Contains(peer) {
			return true
		}
	}
	return false
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

// forwardedElement is one hop in the form of RFC 7239.
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

func setOrDrop(h http.Header, name, value string) {
	if value == "" {
		h.Del(name)
		return
	}
	h.Set(name, value)
}
