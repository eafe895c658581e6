package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/ruleset"
	"github.com/stintdev/stint/internal/secret"
	"github.com/stintdev/stint/resilience/adaptive"
)

// Config says what a [Server] serves. A listener whose address is empty is
// not opened; port 0 picks a free port.
type Config struct {
	// Store decides. It must not be nil.
	Store stint.Store
	// Stats counts what the store holds. Nil hides those metrics, and the
	// log line that says when the store begins to evict.
	Stats func() stint.MemoryStats
	// Shared says how a store is that nodes share. Nil means that Store is
	// the node's own, and up while its calls succeed.
	Shared func() SharedStats
	// StoreCalls is told of the calls to the store by a Store that also
	// answers without it. Nil measures the calls to Store.
	StoreCalls *StoreCalls

	// Rules is the path of a rule file, or of a folder of them, which is
	// followed as it changes. Empty serves [rule.Builtin].
	Rules string
	// RuleSource, when not nil, is where the rules live, instead of Rules.
	RuleSource ruleset.Source
	// StateDir is a folder for what outlives the process: the history of
	// Rules, and a copy of what RuleSource had. Empty keeps neither.
	StateDir string

	// EnvoyConfig is a folder with the configuration files of Envoy's rate
	// limit service, which is followed as it changes. Empty serves none.
	EnvoyConfig string
	// EnvoyHeaders are the headers by which Envoy tells its clients of the
	// limit that is nearest to its end. Nil adds none.
	EnvoyHeaders *EnvoyHeaders
	// EnvoyCompat counts as Envoy's own service does: each descriptor by
	// itself, and also what is denied.
	EnvoyCompat bool
	// EnvoyMerge lets several files of EnvoyConfig describe one domain.
	EnvoyMerge bool
	// EnvoyShadow answers Envoy that every request is OK.
	EnvoyShadow bool
	// EnvoyQuota takes every limit for one in quota mode: a request is over limit
	// when all its limits are.
	EnvoyQuota bool
	// EnvoyStop, with EnvoyCompat, lets a request that would be over one of its
	// limits count for none but those.
	EnvoyStop bool
	// EnvoyMetadata tells in the metadata of every answer what was asked.
	EnvoyMetadata bool

	HTTP    string // the check API, forward auth and health
	GRPC    string // Envoy's rate limit service, health and reflection
	RESP    string // the Redis protocol
	Admin   string // metrics and what changes state
	Gateway string // the reverse proxy; needs Upstreams

	// Upstreams are the base URLs that the gateway passes requests on to.
	Upstreams []*url.URL
	// GatewayAdapt moves a limit on the requests in flight through the
	// gateway; what is over it is answered with 503. Nil: no limit. GatewayMax
	// is the most that the limit may be; zero: 1000.
	GatewayAdapt adaptive.Algorithm
	GatewayMax   int
	// CloseAfter is after how many denials in a row the gateway ends a client's
	// connection. Zero: never.
	CloseAfter int
	// TrustedProxies may say who their client is, and what it asked for.
	TrustedProxies []netip.Prefix

	// PathEncoding is what paths are taken to be, by the rules and in what
	// they match.
	PathEncoding PathEncoding

	// HTTPToken, when not empty, is the bearer token that every surface asks for
	// that decides, but the gateway: HTTP, health aside, GRPC, and RESP, whose
	// password it is. AdminToken is that of Admin, which refuses to listen beyond
	// loopback without one.
	HTTPToken, AdminToken string
	// HTTPTokenFile and AdminTokenFile are files with these tokens, which are read
	// again when they change and by [Server.Reload]. They win over the fields above.
	HTTPTokenFile, AdminTokenFile string
	// EnvoyWithoutToken lets Envoy's rate limit and authorization services on GRPC
	// answer also those who bring no token, for gateways that cannot send one.
	EnvoyWithoutToken bool
	// Secrets are further files with secrets, those of the store for example,
	// which the server watches, and reads again by [Server.Reload].
	Secrets []*secret.Files
	// MostDenied is the share, 0 to 1, of the requests that were allowed in the
	// last minutes which another rule set may deny: one that denies more is
	// refused unless forced. Zero keeps no requests, and refuses nothing.
	MostDenied float64
	// AdminTokens is a file of further tokens for Admin, each with a name and a
	// role. It is read again when it changes, and by [Server.Reload].
	AdminTokens string

	// TLS, when it names a certificate, is spoken on every listener.
	TLS TLSFiles
	// GRPCTLS, when it is not zero, is spoken on GRPC in place of TLS.
	GRPCTLS TLSFiles
	// GRPCMaxAge bounds how long a connection to GRPC may last, give or take a
	// tenth, so that clients look anew for servers; calls in flight then have
	// GRPCMaxAgeGrace. Zero bounds neither.
	GRPCMaxAge, GRPCMaxAgeGrace time.Duration

	// Profiling serves net/http/pprof on Admin.
	Profiling bool

	// DrainDelay is how long a server that was told to stop goes on to
	// accept connections, unready, so that load balancers notice first.
	DrainDelay time.Duration
	// DrainTimeout bounds the whole of draining. Defaults to 9 s.
	DrainTimeout time.Duration
	// HeaderTimeout bounds how long a client may take to send the headers of
	// a request. Defaults to 5 s.
	HeaderTimeout time.Duration
	// BodyTimeout bounds a whole request to HTTP or Admin, its body included,
	// and the wait for the one message of a call to GRPC, which has ended a
	// tenth of a second later. Defaults to 15 s. The gateway streams, so it has
	// no such bound.
	BodyTimeout time.Duration
	// IdleTimeout bounds how long a kept connection over HTTP may be silent
	// between requests, and the wait for each message of a stream to GRPC on
	// which many may come. Defaults to 2 min.
	IdleTimeout time.Duration
	// StreamTimeout bounds how long a client may take nothing of an answer,
	// where the answer as a whole has no bound (Gateway, GRPC, Admin), and send
	// nothing of a body that it has begun, to the gateway. A client that takes
	// a little may have half as long again. A silent client of GRPC is asked
	// for a sign of life after that time, and has a third of it. Defaults to
	// 1 min.
	StreamTimeout time.Duration

	// Logger defaults to one that discards.
	Logger *slog.Logger
}

// setDefaults fills in what is zero.
func (c Config) setDefaults() Config {
	for _, d := range []struct {
		field *time.Duration
		value time.Duration
	}{
		{&c.DrainTimeout, 9 * time.Second}, {&c.HeaderTimeout, 5 * time.Second}, {&c.BodyTimeout, 15 * time.Second},
		{&c.IdleTimeout, 2 * time.Minute}, {&c.StreamTimeout, time.Minute},
	} {
		if *d.field == 0 {
			*d.field = d.value
		}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// check says what is wrong with the settings as a whole, in the words of the
// flags of stint serve.
func (c *Config) check() error {
	for _, a := range []struct{ flag, address string }{
		{"http", c.HTTP}, {"grpc", c.GRPC}, {"resp", c.RESP}, {"admin", c.Admin}, {"gateway", c.Gateway},
	} {
		if err := checkAddress(a.flag, a.address); err != nil {
			return err
		}
	}
	switch {
	case c.Gateway != "" && len(c.Upstreams) == 0:
		return errors.New("gateway: has nowhere to pass requests on to (give --upstream URL)")
	case c.EnvoyWithoutToken && c.HTTPToken == "" && c.HTTPTokenFile == "":
		return errors.New("envoy-without-token: makes an exception of --http-token-file, which is not given (leave it out)")
	case c.Gateway == "" && len(c.Upstreams) > 0:
		return errors.New("upstream: is for the gateway, which is off (give --gateway ADDR)")
	case c.Admin != "" && c.AdminToken == "" && c.AdminTokenFile == "" && c.AdminTokens == "" && !loopback(c.Admin):
		return fmt.Errorf("admin: %s can be reached from other machines (listen on 127.0.0.1, or give --admin-token-file or --admin-tokens-file)", c.Admin)
	}
	return nil
}

func checkAddress(flag, address string) error {
	if address == "" {
		return nil
	}
	_, port, err := net.SplitHostPort(address)
	if err == nil {
		_, err = new(net.Resolver).LookupPort(context.Background(), "tcp", port)
	}
	if err != nil {
		return fmt.Errorf("%s: %q is not an address (write host:port or :port, or off)", flag, address)
	}
	return nil
}

// loopback reports whether only this machine can reach the address.
func loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && ip.Unmap().IsLoopback()
}
