package grpclimit

import (
	"context"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/stintdev/stint/httplimit"
)

// Call is an incoming call, or one message of its stream, for a [Decider]. A [Server]
// makes it; the zero value has no attributes. It is for one goroutine.
type Call struct {
	// Method is the full name, such as "/package.Service/Method".
	Method string
	// Message is the request of a unary call, or the stream message to be counted. It
	// is nil when a stream opens.
	Message any

	ctx      context.Context //nolint:containedctx // a call is its context's, as an http.Request is
	identity *httplimit.Identity
	request  *httplimit.Request // made by the first call of Request
}

// Context returns the context of the call.
func (c *Call) Context() context.Context {
	if c.ctx == nil {
		return context.Background()
	}
	return c.ctx
}

// Metadata returns the first value of a name in the client's metadata, or "".
func (c *Call) Metadata(name string) string {
	if values := metadata.ValueFromIncomingContext(c.Context(), name); len(values) > 0 {
		return values[0]
	}
	return ""
}

// Addr returns the address of the client; see [httplimit.Clients]. It is the zero Addr
// if the connection has no address, as on a Unix socket.
func (c *Call) Addr() netip.Addr { return c.Request().Addr() }

// Request returns the call as an HTTP request: a POST to Method, with the metadata as
// headers and without a body.
func (c *Call) Request() *httplimit.Request {
	if c.request == nil {
		c.request = httplimit.NewRequest(c.http(), c.identity)
	}
	return c.request
}

func (c *Call) http() *http.Request {
	sent, _ := metadata.FromIncomingContext(c.Context())
	r := &http.Request{
		Method: http.MethodPost, URL: &url.URL{Path: c.Method},
		Proto: "HTTP/2.0", ProtoMajor: 2, Header: headers(sent),
	}
	if authority := sent[":authority"]; len(authority) > 0 {
		r.Host = authority[0]
	}
	if p, ok := peer.FromContext(c.Context()); ok && p.Addr != nil {
		r.RemoteAddr = p.Addr.String()
	}
	return r.WithContext(c.Context())
}

// headers returns the metadata as HTTP headers, without pseudo-headers. It shares the
// values of md.
func headers(md metadata.MD) http.Header {
	h := make(http.Header, len(md))
	for name, values := range md {
		if !strings.HasPrefix(name, ":") {
			h[http.CanonicalHeaderKey(name)] = values
		}
	}
	return h
}
