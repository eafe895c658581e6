package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/cmd/stint/internal/decisionlog"
	"github.com/stintdev/stint/cmd/stint/internal/gateway"
	"github.com/stintdev/stint/cmd/stint/internal/httpapi"
	"github.com/stintdev/stint/cmd/stint/internal/identity"
	"github.com/stintdev/stint/cmd/stint/internal/metrics"
	"github.com/stintdev/stint/cmd/stint/internal/ruleset"
	"github.com/stintdev/stint/cmd/stint/internal/tracing"
	"github.com/stintdev/stint/httplimit"
	"github.com/stintdev/stint/internal/secret"
	"github.com/stintdev/stint/resilience/adaptive"
	"github.com/stintdev/stint/rule"
)

// Config configures a [Server]. A listener with an empty address is off; port 0 picks a
// free port.
type Config struct {
	// Store makes the decisions. It must not be nil.
	Store stint.Store
	// Stats returns the statistics of the memory store. Nil omits their metrics and the
	// log line that reports the first evictions.
	Stats func() stint.MemoryStats
	// MaxKeys is the most keys of rules that the memory store of Stats holds.
	MaxKeys int
	// Shared returns the state of a store that nodes share. Nil means that Store is local
	// to this node, and counts as up while its calls succeed.
	Shared func() metrics.SharedStats
	// FewWrites says why a store can make few writes of one key, by the name of the store in
	// rules; "" is the default store. The log warns about strict rules whose callers share a
	// key of such a store.
	FewWrites map[string]string
	// StoreCalls receives the measurements of store calls from a Store that also answers
	// without calling the backend. Nil measures every call to Store.
	StoreCalls *metrics.StoreCalls
	// Stores describes the stores that rules name, if Store has several. The fields above
	// then describe its default store.
	Stores []metrics.StoreReader
	// KeptCharges returns how many charges of denied requests a Store of several stores
	// could not undo. Nil: there is one store.
	KeptCharges func() uint64

	// Rules is the path of a rule file, or of a folder of them, which is watched for
	// changes. Empty serves [rule.Builtin].
	Rules string
	// RuleSource, if not nil, provides the rules instead of Rules.
	RuleSource ruleset.Source
	// StateDir is a folder for data that outlives the process: the version history of
	// Rules, and a local copy of the rules from RuleSource. Empty keeps neither.
	StateDir string

	// EnvoyConfig is a folder of configuration files for Envoy's rate limit service,
	// which is watched for changes. Empty serves none.
	EnvoyConfig string
	// EnvoyHeaders names the headers by which Envoy reports to its clients the limit that
	// is closest to exhaustion. Nil adds none.
	EnvoyHeaders *EnvoyHeaders
	// EnvoyCompat counts as Envoy's own service does: each descriptor on its own, denied
	// requests included.
	EnvoyCompat bool
	// EnvoyConsistency is that of limits in EnvoyConfig which name none, and of limits that
	// Envoy's requests have.
	EnvoyConsistency stint.Consistency
	// EnvoyMerge lets several files of EnvoyConfig describe one domain.
	EnvoyMerge bool
	// EnvoyShadow answers OK to every request from Envoy.
	EnvoyShadow bool
	// EnvoyQuota treats every limit as being in quota mode: a request is over limit only
	// if all of its limits are.
	EnvoyQuota bool
	// EnvoyStop, with EnvoyCompat, charges a request that exceeds some of its limits to
	// those limits only.
	EnvoyStop bool
	// EnvoyNearRatio is the share of a limit from which EnvoyCompat counts hits as near it.
	// 0 means 0.8.
	EnvoyNearRatio float64
	// EnvoyMetadata includes the request in the dynamic metadata of every answer.
	EnvoyMetadata bool

	HTTP    string // the check API, forward auth and health
	GRPC    string // Envoy's rate limit service, health and reflection
	RESP    string // the Redis protocol
	Admin   string // metrics and what changes state
	Gateway string // the reverse proxy; needs Upstreams

	// Upstreams are the base URLs to which the gateway forwards requests.
	Upstreams []*url.URL
	// GatewayGroups and GatewayRoutes are the groups of upstreams, and the routes to them,
	// instead of Upstreams.
	GatewayGroups []gateway.GroupOptions
	GatewayRoutes []gateway.RouteOptions
	// GatewayAdapt adjusts a limit on the requests in flight through the gateway;
	// requests over it are answered with 503. Nil sets no limit. GatewayMax is the upper
	// bound on that limit; zero means 1000.
	GatewayAdapt adaptive.Algorithm
	GatewayMax   int
	// CloseAfter is the number of consecutive denials after which the gateway ends a
	// client's connection. Zero never ends one. With RefuseFor the denials of all
	// connections of a client address together count, too: the gateway then ends all of
	// them, and refuses new ones for RefuseFor. Proxies that TrustedProxies does not have
	// count as one client.
	CloseAfter int
	RefuseFor  time.Duration
	// ConnectionsPerAddress is the greatest number of connections of one client address
	// to the gateway. Zero sets no bound.
	ConnectionsPerAddress int
	// HotKeyRate is the number of requests a second to this node from which a key counts
	// as hot. Zero watches for none.
	HotKeyRate int64
	// NearLimit is the share of a limit, 0 to 1: a request that leaves less of it counts as
	// near the limit. 0 counts none.
	NearLimit float64
	// NativeHistograms adds native buckets to the histograms of the metrics.
	NativeHistograms bool
	// TrustedProxies are the peers whose forwarding headers are believed.
	TrustedProxies []netip.Prefix
	// Identity says where requests have their API keys and tokens, on every surface. Its
	// Clients are those of TrustedProxies. Keys, if not nil, are what verifies the tokens;
	// the server keeps them up to date.
	Identity httplimit.Identity
	Keys     *identity.Keys

	// PathEncoding selects how paths are decoded, both in rules and in the requests that
	// the rules match.
	PathEncoding rule.PathEncoding

	// HTTPToken, if not empty, is the bearer token that every deciding surface except the
	// gateway requires: HTTP (except health), GRPC, and RESP, where it is the password.
	// AdminToken is the token of Admin. Without an admin token, Admin refuses to listen
	// beyond loopback.
	HTTPToken, AdminToken string
	// HTTPTokenFile and AdminTokenFile are files that hold these tokens. The server reads
	// them again when they change and on [Server.Reload]. They take precedence over the
	// fields above.
	HTTPTokenFile, AdminTokenFile string
	// EnvoyWithoutToken lets callers without a token use Envoy's rate limit and
	// authorization services on GRPC, for gateways that cannot send a token.
	EnvoyWithoutToken bool
	// Secrets are further files with secrets, for example those of the store. The server
	// watches them and reads them again on [Server.Reload].
	Secrets []*secret.Files
	// MostDenied is the largest share, 0 to 1, of the recently allowed requests that a
	// new rule set may deny. A rule set that would deny more is refused unless forced.
	// Zero keeps no sample of requests and refuses nothing.
	MostDenied float64
	// AdminHosts are further host names under which browsers may reach Admin, such as that of
	// a proxy: lower-case names or addresses without a port.
	AdminHosts []string
	// AdminTokens is a file of further tokens for Admin, each with a name and a role. The
	// server reads it again when it changes and on [Server.Reload].
	AdminTokens string

	// TLS, if it names a certificate, applies to every listener.
	TLS TLSFiles
	// GRPCTLS, if not zero, replaces TLS on GRPC.
	GRPCTLS TLSFiles
	// GRPCMaxAge bounds the age of a GRPC connection, plus or minus a tenth, so that
	// clients resolve the servers again. Calls in flight then have GRPCMaxAgeGrace to
	// finish. Zero sets no bound for either.
	GRPCMaxAge, GRPCMaxAgeGrace time.Duration

	// Profiling serves net/http/pprof on Admin.
	Profiling bool

	// DrainDelay is how long a stopping server goes on accepting connections while it
	// reports unready, so that load balancers notice first.
	DrainDelay time.Duration
	// DrainTimeout bounds the whole drain. Defaults to 9 s.
	DrainTimeout time.Duration
	// HeaderTimeout bounds the time a client may take to send the headers of a request.
	// Defaults to 5 s.
	HeaderTimeout time.Duration
	// BodyTimeout bounds the time to receive a whole request on HTTP or Admin, body
	// included. On GRPC it bounds the wait for the single message of a call; the call
	// ends at most a tenth of a second later. Defaults to 15 s. The gateway streams
	// bodies, so it has no such bound.
	BodyTimeout time.Duration
	// IdleTimeout bounds the idle time of a kept-alive HTTP connection between requests,
	// and the wait for each message of a client stream on GRPC. Defaults to 2 min.
	IdleTimeout time.Duration
	// StreamTimeout bounds how long a client may accept no part of a response that has no
	// bound as a whole (Gateway, GRPC, Admin), and how long it may send nothing of a body
	// that it has begun to send to the gateway. A client that accepts some data may take
	// half as long again. A silent GRPC client is pinged after StreamTimeout and has a
	// third of it to answer. Defaults to 1 min.
	StreamTimeout time.Duration

	// Tracer records spans of requests. Nil records none.
	Tracer *tracing.Tracer
	// DroppedSpans returns how many recorded spans were not delivered. It is required with a
	// Tracer.
	DroppedSpans func() uint64
	// DecisionLog logs decisions. The server runs it. Nil logs none.
	DecisionLog *decisionlog.Log
	// DecisionLogFile is the file that DecisionLog is written to, which replays of Admin read.
	// Empty: it is written elsewhere.
	DecisionLogFile string
	// KeyHash is the key of the hashes that stand for callers in lists of denials, the same as
	// that of DecisionLog. The zero Key: a random one.
	KeyHash decisionlog.Key
	// Exporters send the metrics elsewhere, until the server has drained.
	Exporters []Exporter

	// Logger defaults to one that discards everything.
	Logger *slog.Logger
}

// Exporter sends the metrics of a registry elsewhere, until ctx ends.
type Exporter interface {
	Run(ctx context.Context, registry prometheus.Gatherer)
}

// identity returns Identity with the trusted proxies.
func (c *Config) identity() httplimit.Identity {
	id := c.Identity
	id.Clients.Trusted = c.TrustedProxies
	return id
}

// setDefaults returns the configuration with defaults in place of zero values.
func (c Config) setDefaults() Config {
	c.DrainTimeout = cmp.Or(c.DrainTimeout, 9*time.Second)
	c.HeaderTimeout = cmp.Or(c.HeaderTimeout, 5*time.Second)
	c.BodyTimeout = cmp.Or(c.BodyTimeout, 15*time.Second)
	c.IdleTimeout = cmp.Or(c.IdleTimeout, 2*time.Minute)
	c.StreamTimeout = cmp.Or(c.StreamTimeout, time.Minute)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// check validates combinations of settings. Its errors name the flags of stint serve.
func (c *Config) check() error {
	for _, a := range []struct{ flag, address string }{
		{"http", c.HTTP}, {"grpc", c.GRPC}, {"resp", c.RESP}, {"admin", c.Admin}, {"gateway", c.Gateway},
	} {
		if err := checkAddress(a.flag, a.address); err != nil {
			return err
		}
	}
	for _, name := range c.AdminHosts {
		if err := checkAdminHost(name); err != nil {
			return err
		}
	}
	switch {
	case c.Gateway != "" && len(c.Upstreams)+len(c.GatewayGroups) == 0:
		return errors.New("gateway: has no upstream to forward requests to (give --upstream URL or --gateway-config FILE)")
	case len(c.Upstreams) > 0 && len(c.GatewayGroups) > 0:
		return errors.New("upstream: --gateway-config names the upstreams too (give only one of them)")
	case c.Gateway == "" && len(c.GatewayGroups) > 0:
		return errors.New("gateway-config: is for the gateway, which is off (give --gateway ADDR)")
	case c.EnvoyWithoutToken && c.HTTPToken == "" && c.HTTPTokenFile == "":
		return errors.New("envoy-without-token: is an exception to --http-token-file, which is not given (leave it out)")
	case c.Gateway == "" && len(c.Upstreams) > 0:
		return errors.New("upstream: is for the gateway, which is off (give --gateway ADDR)")
	case c.Admin != "" && c.AdminToken == "" && c.AdminTokenFile == "" && c.AdminTokens == "" && !httpapi.Loopback(c.Admin):
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
