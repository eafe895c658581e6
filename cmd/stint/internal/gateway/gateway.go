// Package gateway is a streaming reverse proxy. It forwards each request to an upstream of
// the group that its route names, and streams the response back.
//
// Use it behind a handler that decides, such as the middleware of httplimit: the gateway
// itself does not limit or count. Serve it from an http.Server that bounds the reading of
// headers and idle connections, but not whole requests or responses, because streams have
// no end.
//
// It applies the packages of resilience to the upstreams: deadlines, circuit breakers,
// bulkheads and retries. No single client can turn them against an upstream (see
// [GroupOptions]).
//
// It promises:
//
//   - Bodies are never buffered whole. WebSocket, server-sent events, HTTP/2 with trailers
//     (gRPC) and informational responses pass through. A client that leaves cancels the
//     request at the upstream.
//   - A request is sent at most once, except for a GET, HEAD, OPTIONS or TRACE without a
//     body whose idle connection had died, and for what the [RetryOptions] of a group
//     allow. Otherwise another upstream is tried only if nothing was sent.
//   - An answer of 503 means that nothing was sent, so that a retry is safe; 502 and 504
//     mean that the upstream may have acted.
//   - X-Forwarded-For, -Proto and -Host describe the connection to the upstream. Values
//     from the client count only if the peer is trusted.
//   - Rate limit fields that the limiter wrote take precedence: if the response has any
//     X-RateLimit-* or RateLimit* field, those of the upstream are dropped.
package gateway

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"slices"
	"time"
)

// Gateway is an [http.Handler]. It is safe for concurrent use.
type Gateway struct {
	options Options
	groups  []*group
	routes  *routes
	refused RouteMetrics // of requests without a route
	proxy   *forwarder
	now     func() time.Time
	check   func(context.Context, *upstream) error
}

// New makes a gateway. It opens no connection: upstreams count as up until a dial or a
// check of [Gateway.Run] fails. An error names the invalid option.
func New(o Options) (*Gateway, error) {
	g := &Gateway{options: o.setDefaults()}
	g.now, g.check, g.proxy = g.options.Clock, g.checkUpstream, &forwarder{g.newProxy()}
	for _, options := range o.Groups {
		gr, err := newGroup(options, &g.options)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(g.groups, func(other *group) bool { return other.options.Name == gr.options.Name }) {
			return nil, fmt.Errorf("gateway: two groups have the name %q (give each its own)", gr.options.Name)
		}
		gr.metrics = g.options.GroupMetrics(gr.options.Name)
		gr.handler = g.withDeadline(gr)
		if gr.retries, err = g.newRetries(gr); err != nil {
			return nil, err
		}
		g.groups = append(g.groups, gr)
	}
	var err error
	if g.routes, err = newRoutes(&g.options, g.groups); err != nil {
		return nil, err
	}
	g.refused = g.options.RouteMetrics("")
	return g, nil
}

func (g *Gateway) newProxy() *httputil.ReverseProxy {
	return &httputil.ReverseProxy{
		Rewrite:        g.rewrite,
		Transport:      roundTripper(func(r *http.Request) (*http.Response, error) { return g.traced(r, g.roundTrip) }),
		FlushInterval:  -1,                                                             // forward every write at once
		ErrorLog:       slog.NewLogLogger(g.options.Logger.Handler(), slog.LevelDebug), // logs truncated responses
		BufferPool:     &buffers{},
		ModifyResponse: modifyResponse,
		ErrorHandler:   g.fail,
	}
}

// ServeHTTP forwards the request. It panics with [http.ErrAbortHandler] if an upstream
// breaks off in the middle of its response. The server then breaks the client's
// connection too, which is the only way to signal a truncated response.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := newExchange(w, r)
	defer x.end()
	problem := refuse(r)
	if problem == nil {
		problem = x.findRoute(g.routes, r)
	}
	if problem != nil {
		x.restore(nil)
		x.answered(&g.refused, problem.status)
		problem.write(w, x.id)
		return
	}
	x.in = *r.WithContext(x)
	r = &x.in
	x.watch(r)
	x.route.group.handler.ServeHTTP(w, r)
}

// CloseIdleConnections closes the upstream connections that serve no request.
func (g *Gateway) CloseIdleConnections() {
	for _, gr := range g.groups {
		gr.wire.Load().closeIdle()
	}
}
