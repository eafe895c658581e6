package server

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

// closer ends connections to the gateway whose requests are denied all the
// time: a client that never backs off costs a connection of its own then, and
// whatever it takes to open another. What it keeps is a number in each
// connection. Connections of trusted proxies carry many clients and are left
// alone.
type closer struct {
	most    int64 // denials in a row; above 0
	trusted []netip.Prefix
	closed  prometheus.Counter
}

// newCloser is that of the gateway; nil: no connection is ended.
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

// connection is what is kept beside a connection of a client.
type connection struct {
	denials atomic.Int64 // in a row
	ended   atomic.Bool
}

type (
	connectionKey struct{}
	responseKey   struct{}
)

// connContext is for [http.Server.ConnContext].
func (p *closer) connContext(ctx context.Context, c net.Conn) context.Context {
	if addr, err := netip.ParseAddrPort(c.RemoteAddr().String()); err == nil {
		from := addr.Addr().Unmap().WithZone("")
		if slices.ContainsFunc(p.trusted, func(t netip.Prefix) bool { return t.Contains(from) }) {
			return ctx
		}
	}
	return context.WithValue(ctx, connectionKey{}, &connection{})
}

// wrap lets a decision end the connection of a request that could be one too
// many.
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

// decider counts what another decides.
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

// Decide implements httplimit.Decider. What is denied for want of a store is not
// the client's doing.
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

// end has the answer be the last of its connection: net/http closes one of
// HTTP/1.1 after it, and says GOAWAY on one of HTTP/2.
func (d *closingDecider) end(ctx context.Context, c *connection) {
	w, ok := ctx.Value(responseKey{}).(http.ResponseWriter)
	if !ok {
		return // the next one
	}
	w.Header().Set("Connection", "close")
	if !c.ended.Swap(true) {
		d.closed.Inc()
	}
}
