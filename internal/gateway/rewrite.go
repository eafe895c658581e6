package gateway

import (
	"net/http/httputil"
	"strings"
)

// rewrite makes the request that any upstream gets. Hop-by-hop fields are
// gone already, those that Connection names included, so that a client cannot
// have a field removed that is set here.
func (g *Gateway) rewrite(p *httputil.ProxyRequest) {
	p.Out.Host = p.In.Host
	p.Out.URL.RawQuery = p.In.URL.RawQuery // as it came: no rule reads it
	p.Out.Header.Set(requestIDHeader, exchangeOf(p.In).id)
	g.setForwarded(p.In, p.Out.Header)
	setTrace(p.In.Header, p.Out.Header)
	keepWebSocket(p)
	passTrailers(p)
}

// keepWebSocket drops a request to change to any other protocol: an upstream
// that follows "Upgrade: h2c" would open a tunnel that nobody limits. It is
// then an ordinary request, as the protocol allows.
func keepWebSocket(p *httputil.ProxyRequest) {
	if h := p.Out.Header; !strings.EqualFold(h.Get("Upgrade"), "websocket") {
		h.Del("Upgrade")
		h.Del("Connection")
	}
}
