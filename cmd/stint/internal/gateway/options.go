package gateway

import (
	"cmp"
	"crypto/tls"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"time"

	"github.com/stintdev/stint/cmd/stint/internal/tracing"
	"github.com/stintdev/stint/internal/secret"
	"github.com/stintdev/stint/internal/urlpath"
	"github.com/stintdev/stint/resilience/breaker"
	"github.com/stintdev/stint/resilience/bulkhead"
)

// Options configures a [Gateway]. All but Groups have useful zero values.
type Options struct {
	// Groups are the groups of upstreams, at least one. Their names are unique.
	Groups []GroupOptions

	// Routes say which group serves a request: the most specific route that matches. An
	// exact host is more specific than a wildcard, which is more specific than no host;
	// among equal hosts, the longer path prefix is. A request that no route matches is
	// answered with 404. If empty, the first group serves every request.
	Routes []RouteOptions

	// PathForm returns the form of an escaped path that routes match, or an error for a
	// path that servers read differently, which is then refused. It must be the form that
	// rules compare. Otherwise a client could reach a route by a spelling of a path that
	// the rules of that route do not match. Defaults to [urlpath.Decode].
	PathForm func(path string) (string, error)

	// Identifies reports whether a header field, by its canonical name, identifies clients
	// according to settings. No route may change it. Nil is for no field but the common
	// ones, such as Authorization.
	Identifies func(field string) bool

	// Trusted are the addresses of proxies in front of the gateway, whose X-Forwarded-*
	// and Forwarded fields are continued. The fields of any other peer are dropped.
	Trusted []netip.Prefix

	// RouteMetrics and GroupMetrics return the metrics of the route or the group of a
	// name. The route of no name has the requests that were refused or matched no route.
	// Nil counts nothing.
	RouteMetrics func(route string) RouteMetrics
	GroupMetrics func(group string) GroupMetrics

	// ClientAddr returns the address of the client of a request. Responses count for a
	// circuit breaker at most once a second for each address. Defaults to the address of
	// the connection.
	ClientAddr func(*http.Request) netip.Addr

	// Tracer records each request to an upstream on behalf of a recorded request. The
	// upstream then gets the trace context of that span. Nil records none.
	Tracer *tracing.Tracer

	// Logger gets one line per health change and per failed request. Defaults to
	// discarding.
	Logger *slog.Logger

	// Clock returns the time, for the pauses of upstreams. Defaults to time.Now.
	Clock func() time.Time
}

// RouteOptions describes a route: the requests that it matches, the group that serves
// them, and how they are changed on the way. Rules decide before that, and see the request
// of the client.
type RouteOptions struct {
	// Name identifies the route in metrics and logs. It is unique. Defaults to the host
	// and the path prefix.
	Name string

	// Host is a host name, or "*.example.com" for every name below example.com. If empty,
	// the route matches every host, and requests without one.
	Host string

	// PathPrefix is compared as in rules: as plain text, except that /v1/ also matches
	// /v1. It begins with a slash. Defaults to "/".
	PathPrefix string

	// Group is the name of the group that serves the requests.
	Group string

	// StripPrefix is removed from the beginning of the path; then AddPrefix is put in
	// front of it. StripPrefix is a part of PathPrefix that ends with a whole segment. A
	// path that reaches the route only by dot segments or escapes does not begin with
	// StripPrefix as written, and is refused.
	StripPrefix, AddPrefix string

	// RequestHeaders changes the header of requests to the group, and ResponseHeaders that
	// of its responses. The gateway's own answers are not changed.
	RequestHeaders, ResponseHeaders HeaderOptions

	// Fallback answers requests when no upstream does. Nil: the gateway's own answers.
	Fallback *FallbackOptions
}

// HeaderOptions changes header fields. Neither list may have a field that belongs to one
// connection, identifies the client, or is written by the gateway itself.
type HeaderOptions struct {
	Remove []string
	Set    map[string]string // replaces all values of a field
}

// GroupOptions describes a group of upstreams that serve the same requests. All but
// Servers have useful zero values.
type GroupOptions struct {
	// Name identifies the group in routes, metrics and logs. Defaults to "default".
	Name string

	// Servers are the upstreams, at least one.
	Servers []ServerOptions

	// Host selects the Host of requests to the upstream. Defaults to HostAuto.
	Host HostPolicy

	// HealthPath is the path that [Gateway.Run] requests from each upstream, below the
	// path of its URL; a status below 400 is healthy. It begins with a slash. If empty, a
	// check only connects.
	HealthPath string

	// HealthInterval is the time between two checks of an upstream, and the timeout of
	// each, 1 ms to 1 h. Defaults to 2 s.
	HealthInterval time.Duration

	// DialTimeout bounds connecting; TLSHandshakeTimeout bounds the handshake after it.
	// Both default to 5 s.
	DialTimeout         time.Duration
	TLSHandshakeTimeout time.Duration

	// ResponseHeaderTimeout bounds the time from sending the whole request to the first
	// byte of the response. Defaults to 60 s.
	ResponseHeaderTimeout time.Duration

	// Breaker opens a circuit for each upstream whose requests fail, so that it gets none
	// for a while. Clock and OnChange are not used. Growth defaults to 2. Nil: none.
	Breaker *breaker.Options

	// Ejection takes requests from an upstream that is worse than the others. Nil: none.
	Ejection *EjectionOptions

	// PanicBelow is the share of upstreams that must be usable for health checks and
	// ejections to be obeyed, at most 1. If fewer are usable, requests go to all that may
	// be reached, because the others could not bear all of them. Defaults to 0.5 if
	// Ejection is set. Below 0, and if neither is set, health checks are always obeyed
	// while an upstream is up.
	PanicBelow float64

	// Bulkhead bounds the requests in flight to the group, and the requests that wait
	// until one of them has ended. Further requests get 503. Streams and WebSockets do
	// not count once they have begun. MaxWait defaults to 1 s. Nil: no bound.
	Bulkhead *bulkhead.Options

	// Retry sends requests again that have failed. Nil: every request is sent once.
	Retry *RetryOptions

	// Timeout bounds the whole of a request and its response, bodies, streams and
	// WebSockets included. Zero: no bound.
	Timeout time.Duration

	// MaxIdlePerUpstream bounds the idle connections kept to each upstream. Defaults to
	// 128. IdleTimeout is the time after which they are closed. Defaults to 90 s.
	MaxIdlePerUpstream int
	IdleTimeout        time.Duration

	// TLS configures connections to https upstreams: roots, client certificates, and the
	// name that certificates of upstreams must have. Nil uses the roots of the system and
	// the host of the URL.
	TLS *tls.Config

	// Files, if not nil, has roots and a client certificate that take precedence over
	// those of TLS. When they change, later requests use new connections.
	Files *secret.ClientTLS
}

// ServerOptions describes one upstream.
type ServerOptions struct {
	// URL is the base URL of the upstream. Its path is put in front of the path of every
	// request. The scheme selects the protocol: http is HTTP/1.1, https is HTTP/2 or
	// HTTP/1.1 as negotiated, and h2c is HTTP/2 without TLS. Proxies from the environment
	// are not used.
	URL *url.URL

	// Weight is the share of requests that the upstream gets, relative to the other
	// upstreams of its group: one of weight 3 has three times as many requests in flight
	// as one of weight 1. Defaults to 1, at most 1000.
	Weight int
}

// HostPolicy selects the Host of requests to an upstream. X-Forwarded-Host always carries
// the Host of the client's request.
type HostPolicy uint8

// The host policies.
const (
	// HostAuto is HostUpstream for https, because certificates are bound to host names,
	// and HostClient for http and h2c.
	HostAuto     HostPolicy = iota
	HostClient              // the host that the client sent
	HostUpstream            // the host of the upstream's URL
)

func (o Options) setDefaults() Options {
	if o.PathForm == nil {
		o.PathForm = urlpath.Decode
	}
	if o.Identifies == nil {
		o.Identifies = func(string) bool { return false }
	}
	if o.RouteMetrics == nil {
		o.RouteMetrics = noRouteMetrics
	}
	if o.GroupMetrics == nil {
		o.GroupMetrics = noGroupMetrics
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.ClientAddr == nil {
		o.ClientAddr = peerOf
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	return o
}

func (o GroupOptions) setDefaults() GroupOptions {
	o.Name = cmp.Or(o.Name, "default")
	o.HealthInterval = orElse(o.HealthInterval, 2*time.Second)
	o.DialTimeout = orElse(o.DialTimeout, 5*time.Second)
	o.TLSHandshakeTimeout = orElse(o.TLSHandshakeTimeout, 5*time.Second)
	o.ResponseHeaderTimeout = orElse(o.ResponseHeaderTimeout, time.Minute)
	o.MaxIdlePerUpstream = orElse(o.MaxIdlePerUpstream, 128)
	if o.Ejection != nil {
		e := o.Ejection.setDefaults()
		o.Ejection, o.PanicBelow = &e, cmp.Or(o.PanicBelow, 0.5)
	}
	if o.Breaker != nil {
		b := *o.Breaker
		b.Growth = cmp.Or(b.Growth, 2)
		o.Breaker = &b
	}
	if o.Bulkhead != nil {
		b := *o.Bulkhead
		b.MaxWait = cmp.Or(b.MaxWait, time.Second)
		o.Bulkhead = &b
	}
	o.IdleTimeout = orElse(o.IdleTimeout, 90*time.Second)
	return o
}

func orElse[T ~int | ~int64](v, preset T) T {
	if v <= 0 {
		return preset
	}
	return v
}
