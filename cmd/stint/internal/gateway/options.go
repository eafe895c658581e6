package gateway

import (
	"cmp"
	"crypto/tls"
	"log/slog"
	"net/netip"
	"net/url"
	"time"
)

// Options configures a [Gateway]. All but Groups have useful zero values.
type Options struct {
	// Groups are the groups of upstreams, at least one. Their names are unique.
	Groups []GroupOptions

	// Routes say which group serves a request. If empty, the first group serves every
	// request.
	Routes []RouteOptions

	// Trusted are the addresses of proxies in front of the gateway, whose X-Forwarded-*
	// and Forwarded fields are continued. The fields of any other peer are dropped.
	Trusted []netip.Prefix

	// Logger gets one line per health change and per failed request. Defaults to
	// discarding.
	Logger *slog.Logger
}

// RouteOptions describes a route.
type RouteOptions struct {
	// Name identifies the route in metrics and logs. Defaults to the host and the path
	// prefix.
	Name string
	// Group is the name of the group that serves the requests.
	Group string
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
	// each. Defaults to 2 s.
	HealthInterval time.Duration

	// DialTimeout bounds connecting; TLSHandshakeTimeout bounds the handshake after it.
	// Both default to 5 s.
	DialTimeout         time.Duration
	TLSHandshakeTimeout time.Duration

	// ResponseHeaderTimeout bounds the time from sending the whole request to the first
	// byte of the response. Bodies have no bound. Defaults to 60 s.
	ResponseHeaderTimeout time.Duration

	// MaxIdlePerUpstream bounds the idle connections kept to each upstream;
	// they are closed after 90 s. Defaults to 128.
	MaxIdlePerUpstream int

	// TLS configures connections to https upstreams: roots and client certificates. Nil
	// uses the roots of the system.
	TLS *tls.Config
}

// ServerOptions describes one upstream.
type ServerOptions struct {
	// URL is the base URL of the upstream. Its path is put in front of the path of every
	// request. The scheme selects the protocol: http is HTTP/1.1, https is HTTP/2 or
	// HTTP/1.1 as negotiated, and h2c is HTTP/2 without TLS. Proxies from the environment
	// are not used.
	URL *url.URL
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
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
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
	return o
}

func orElse[T ~int | ~int64](v, preset T) T {
	if v <= 0 {
		return preset
	}
	return v
}
