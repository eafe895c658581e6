package gateway

import (
	"net/http/httputil"
	"strings"
)

// rewrite makes the outgoing request, independent of the upstream. Hop-by-hop fields,
// including those that Connection names, have been removed before, so a client cannot
// remove a field set here.
func (g *Gateway) rewrite(p *httputil.ProxyRequest) {
	p.Out.Host = p.In.Host
	p.Out.URL.RawQuery = p.In.URL.RawQuery // unchanged: no rule reads it
	p.Out.Header.Set(requestIDHeader, exchangeOf(p.In).id)
	g.setForwarded(p.In, p.Out.Header)
	setTrace(p.In.Header, p.Out.Header)
	keepWebSocket(p)
	passTrailers(p)
}

// keepWebSocket drops upgrades to any protocol other than WebSocket: an upstream that
// accepts "Upgrade: h2c" would open a tunnel without limits. The request is then an
// ordinary one, as HTTP allows.
func keepWebSocket(p *httputil.ProxyRequest) {
	if h := p.Out.Header; !strings.EqualFold(h.Get("Upgrade"), "websocket") {
		h.Del("Upgrade")
		h.Del("Connection")
	}
}
