package slowclient

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stintdev/stint/httplimit"
)

// closer ends a connection to the gateway after a number of denials in a row. A client
// that never backs off then pays for a new connection each time. The cost is one counter
// per connection. Connections from trusted proxies carry many clients and are never
// ended.
type closer struct {
	most    int64 // denials in a row that end a connection; above 0
	trusted []netip.Prefix
	closed  prometheus.Counter
}

// newCloser returns the closer of the gateway, or nil if CloseAfter is 0 or less.
func (s *Server) newCloser() *closer {
	if s.config.CloseAfter <= 0 {
		return nil
	}
	p := &closer{most: int64(s.config.CloseAfter), trusted: s.config.TrustedProxies,
		closed: prometheus.NewCounter(prometheus.CounterOpts{Name: "stint_gateway_connections_closed_total",
			Help: "Connections to the gateway that were ended because all their requests were denied."})}
	s.metrics.registry.MustRegister(p.closed)
	return p
}

// connection is the state of one client connection.
type connection struct {
	denials atomic.Int64 // consecutive denials
	ended   atomic.Bool
}

type (
	connectionKey struct{}
	responseKey   struct{}
)

// connContext implements [http.Server.ConnContext]. It attaches no state for trusted
// proxies.
func (p *closer) connContext(ctx context.Context, c net.Conn) context.Context {
	if addr, err := netip.ParseAddrPort(c.RemoteAddr().String()); err == nil {
		from := addr.Addr().Unmap().WithZone("")
		if slices.ContainsFunc(p.trusted, func(t netip.Prefix) bool { return t.Contains(from) }) {
			return ctx
		}
	}
	return context.WithValue(ctx, connectionKey{}, &connection{})
}

// wrap passes the response writer on to the decider for a request whose denial would
// reach the limit, so that end can close the connection.
func (p *closer) wrap(next http.Handler) http.Handler {
	if p == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, _ := r.Context().Value(connectionKey{}).(*connection)
		if c != nil && c.denials.Load() >= p.most-1 {
			r = r.WithContext(context.WithValue(r.Context(), responseKey{}, w))
		}
		next.ServeHTTP(w, r)
	})
}

// decider wraps next and counts its denials per connection.
func (p *closer) decider(next httplimit.Decider) httplimit.Decider {
	if p == nil {
		return next
	}
	return &closingDecider{p, next}
}

type closingDecider struct {
	*closer

	next httplimit.Decider
}

// Decide implements httplimit.Decider. A denial caused by an unavailable store does not
// count against the client.
func (d *closingDecider) Decide(ctx context.Context, r *httplimit.Request) (httplimit.Answer, error) {
	a, err := d.next.Decide(ctx, r)
	c, ok := ctx.Value(connectionKey{}).(*connection)
	switch {
	case !ok || err != nil || a.Unavailable:
	case !a.Allowed():
		if c.denials.Add(1) >= d.most {
			d.end(ctx, c)
		}
	case c.denials.Load() > 0:
		c.denials.Store(0)
	}
	return a, err
}

// end makes this response the last of its connection: net/http then closes an HTTP/1.1
// connection and sends GOAWAY on an HTTP/2 connection.
func (d *closingDecider) end(ctx context.Context, c *connection) {
	w, ok := ctx.Value(responseKey{}).(http.ResponseWriter)
	if !ok {
		return // wrap did not attach the writer; the next denial ends the connection
	}
	w.Header().Set("Connection", "close")
	if !c.ended.Swap(true) {
		d.closed.Inc()
	}
}
