package gateway

import (
	"crypto/tls"
	"log/slog"
	"net/netip"
	"net/url"
	"time"
)

// Options configures a [Gateway]. All but Upstreams have useful zero values.
type Options struct {
	// Upstreams are where requests go: the scheme, the host and, before the
	// path of every request, a path. The scheme says the protocol: http is
	// HTTP/1.1, https is HTTP/2 or 1.1 as the two agree, and h2c is HTTP/2
	// without TLS. At least one. Proxies of the environment are not used.
	Upstreams []*url.URL

	// Trusted are the addresses of proxies in front of the gateway, whose
	// X-Forwarded-* and Forwarded fields are continued. Those of any other
	// peer are dropped.
	Trusted []netip.Prefix

	// Host says which Host the upstream is asked for. Defaults to HostAuto.
	Host HostPolicy

	// HealthPath is what [Gateway.Run] asks each upstream for, below the path
	// of its URL; an answer below 400 is healthy. It begins with a slash.
	// Empty, it only connects.
	HealthPath string

	// HealthInterval is the time between two checks of an upstream; a check
	// may last as long. Defaults to 2 s.
	HealthInterval time.Duration

	// DialTimeout bounds the making of a connection; TLSHandshakeTimeout the
	// handshake after it. Default to 5 s each.
	DialTimeout         time.Duration
	TLSHandshakeTimeout time.Duration

	// ResponseHeaderTimeout bounds the wait for an upstream's answer, from
	// when the whole request was sent to the first byte. Bodies have no
	// bound. Defaults to 60 s.
	ResponseHeaderTimeout time.Duration

	// MaxIdlePerUpstream bounds the idle connections kept to each upstream;
	// they are closed after 90 s. Defaults to 128.
	MaxIdlePerUpstream int

	// TLS is used to connect to https upstreams: roots, client certificates.
	// Nil uses the roots of the system.
	TLS *tls.Config

	// Logger gets one line per change of health and per failed request.
	// Defaults to none.
	Logger *slog.Logger
}

// HostPolicy is which Host an upstream is asked for. X-Forwarded-Host always
// says what the client asked for.
type HostPolicy uint8

// The host policies.
const (
	// HostAuto is HostUpstream for https, whose certificate says for which
	// names it serves, and HostClient for http and h2c.
	HostAuto     HostPolicy = iota
	HostClient              // as the client sent it
	HostUpstream            // the host of the upstream's URL
)

func (o Options) setDefaults() Options {
	o.HealthInterval = orElse(o.HealthInterval, 2*time.Second)
	o.DialTimeout = orElse(o.DialTimeout, 5*time.Second)
	o.TLSHandshakeTimeout = orElse(o.TLSHandshakeTimeout, 5*time.Second)
	o.ResponseHeaderTimeout = orElse(o.ResponseHeaderTimeout, time.Minute)
	o.MaxIdlePerUpstream = orElse(o.MaxIdlePerUpstream, 128)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

func orElse[T ~int | ~int64](v, preset T) T {
	if v <= 0 {
		return preset
	}
	return v
}
