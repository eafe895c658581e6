package slowclient

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync/atomic"

	"github.com/stintdev/stint/httplimit"
)

// Denials ends a connection to the gateway after a number of denials in a row. A client
// that never backs off then pays for a new connection each time. The cost is one counter
// per connection. Connections from trusted proxies carry many clients and are never
// ended.
type Denials struct {
	Max     int // denials in a row that end a connection; above 0
	Trusted []netip.Prefix
	Closed  func() // called once for each connection that is ended
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

// ConnContext is the hook [http.Server.ConnContext]. It attaches no state for trusted
// proxies.
func (d *Denials) ConnContext(ctx context.Context, c net.Conn) context.Context {
	if addr, err := netip.ParseAddrPort(c.RemoteAddr().String()); err == nil {
		from := addr.Addr().Unmap().WithZone("")
		if slices.ContainsFunc(d.Trusted, func(t netip.Prefix) bool { return t.Contains(from) }) {
			return ctx
		}
	}
	return context.WithValue(ctx, connectionKey{}, &connection{})
}

// Wrap passes the response writer on to the decider for a request whose denial would
// reach the limit, so that end can close the connection. A nil Denials returns next.
func (d *Denials) Wrap(next http.Handler) http.Handler {
	if d == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, _ := r.Context().Value(connectionKey{}).(*connection)
		if c != nil && c.denials.Load() >= int64(d.Max)-1 {
			r = r.WithContext(context.WithValue(r.Context(), responseKey{}, w))
		}
		next.ServeHTTP(w, r)
	})
}

// Decider wraps next and counts its denials per connection. A nil Denials returns next.
func (d *Denials) Decider(next httplimit.Decider) httplimit.Decider {
	if d == nil {
		return next
	}
	return &denialCounter{d, next}
}

type denialCounter struct {
	*Denials

	next httplimit.Decider
}

// Decide implements httplimit.Decider. A denial caused by an unavailable store does not
// count against the client.
func (d *denialCounter) Decide(ctx context.Context, r *httplimit.Request) (httplimit.Answer, error) {
	a, err := d.next.Decide(ctx, r)
	c, ok := ctx.Value(connectionKey{}).(*connection)
	switch {
	case !ok || err != nil || a.Unavailable:
	case !a.Allowed():
		if c.denials.Add(1) >= int64(d.Max) {
			d.end(ctx, c)
		}
	case c.denials.Load() > 0:
		c.denials.Store(0)
	}
	return a, err
}

// end makes this response the last of its connection: net/http then closes an HTTP/1.1
// connection and sends GOAWAY on an HTTP/2 connection.
func (d *denialCounter) end(ctx context.Context, c *connection) {
	w, ok := ctx.Value(responseKey{}).(http.ResponseWriter)
	if !ok {
		return // Wrap did not attach the writer; the next denial ends the connection
	}
	w.Header().Set("Connection", "close")
	if !c.ended.Swap(true) {
		d.Closed()
	}
}
