package slowclient

import (
	"context"
	"net/http"

	"github.com/stintdev/stint/httplimit"
)

// Denials ends connections to the gateway after a number of denials in a row. It counts on
// the connections of an [Addresses], which can count for each client address over all its
// connections, too, and then refuses new connections of the address for a while: a client
// that never backs off so gets at most that number of denials in that time. The cost is two
// counters. Connections of trusted proxies carry many clients and are never ended.
type Denials struct {
	Max int // denials in a row; above 0
}

type responseKey struct{}

// Wrap passes the response writer on to the decider for a request whose denial would
// reach the limit, so that end can close the connection. A nil Denials returns next.
func (d *Denials) Wrap(next http.Handler) http.Handler {
	if d == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := trackedOf(r.Context())
		switch {
		case c == nil:
		case c.ending.Load():
			endBy(w, r, c)
		case c.nearEnd(int64(d.Max)):
			r = r.WithContext(context.WithValue(r.Context(), responseKey{}, w))
		}
		next.ServeHTTP(w, r)
	})
}

// endBy ends a connection with the answer to a request. A request to upgrade needs its
// Connection field.
func endBy(w http.ResponseWriter, r *http.Request, c *trackedConn) {
	if r.Header.Get("Upgrade") == "" {
		w.Header().Set("Connection", "close")
		c.countEnd()
	}
}

// Decider wraps next and counts its denials. A nil Denials returns next.
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

// Decide implements httplimit.Decider. A denial while the store fails does not count
// against the client: its limit may not be used up.
func (d *denialCounter) Decide(ctx context.Context, r *httplimit.Request) (httplimit.Answer, error) {
	a, err := d.next.Decide(ctx, r)
	c := trackedOf(ctx)
	switch {
	case c == nil || err != nil || a.Unavailable || a.Decision.Degraded && !a.Allowed():
	case a.Allowed():
		c.allowed()
	case c.denied(int64(d.Max)):
		c.end(ctx)
	}
	return a, err
}

// end makes this response the last of its connection: net/http then closes an HTTP/1.1
// connection and sends GOAWAY on an HTTP/2 connection.
func (c *trackedConn) end(ctx context.Context) {
	w, ok := ctx.Value(responseKey{}).(http.ResponseWriter)
	if !ok {
		c.ending.Store(true) // Wrap did not attach the writer; the next answer ends the connection
		return
	}
	w.Header().Set("Connection", "close")
	c.countEnd()
}
