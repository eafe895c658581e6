package main

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/spf13/pflag"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/guard"
	"github.com/stintdev/stint/lease"
	"github.com/stintdev/stint/redisstore"
)

// serveFlags are the flags of stint serve as they were given.
type serveFlags struct {
	configFile                       string
	rules, store, storePasswordFile  string
	rulesPasswordFile, stateDir      string
	keyPrefix, storeClock            string
	storeDeadline, storeSlow         time.Duration
	leaseTime                        time.Duration
	http, grpc, admin, resp, gateway string
	upstreams, trusted               []string
	gatewayAdapt                     string
	gatewayMax, closeAfter           int
	gatewaySlow                      time.Duration
	pathEncoding                     string
	envoyConfig                      string
	envoyHeaders, envoyCompat        bool
	envoyWithoutToken                bool
	envoy                            envoySettings // from the environment
	nodes, maxKeys, maxCallerKeys    int
	maxCallerBytes                   int64
	httpTokenFile, adminTokenFile    string
	adminTokensFile, impactLimit     string
	tlsCert, tlsKey, clientCA        string
	logFormat, logLevel              string
	drainDelay                       time.Duration
	profiling                        bool
	shown                            []string // flags with a password on the command line
}

// defaultKeyPrefix begins the keys in a shared store.
const defaultKeyPrefix = "stint"

// defaultCloseAfter is how many denials in a row a client of the gateway has who
// never backs off.
const defaultCloseAfter = 1000

// defaultGatewayMax is the most requests in flight through a gateway that
// sheds.
const defaultGatewayMax = 1000

// defaultGatewaySlow is the mean latency that is too long for aimd.
const defaultGatewaySlow = time.Second

// off, as an address, disables a listener.
const off = "off"

func (f *serveFlags) define(flags *pflag.FlagSet) {
	flags.SortFlags = false
	flags.StringVar(&f.configFile, "config", "", "read settings from this YAML `FILE`, whose keys are the names of flags")
	f.defineRules(flags)
	f.defineListeners(flags)
	f.defineSecurity(flags)
	flags.StringVar(&f.logFormat, "log-format", "text", "text or json")
	flags.StringVar(&f.logLevel, "log-level", "info", "debug, info, warn or error")
	flags.DurationVar(&f.drainDelay, "drain-delay", time.Second, "after SIGTERM, go on accepting for so long, unready (at most 8s)")
}

func (f *serveFlags) defineRules(flags *pflag.FlagSet) {
	flags.StringVar(&f.rules, "rules", "", "where rules live, followed as they change: a `FILE|DIR`, redis://… or postgres://… (default built-in example rules)")
	flags.StringVar(&f.rulesPasswordFile, "rules-password-file", "", "`FILE` with the password of rules in Redis or PostgreSQL")
	flags.StringVar(&f.stateDir, "state-dir", "", "`DIR` for the history of rule files and a copy of rules that are elsewhere, or off (default $STATE_DIRECTORY, else ~/.local/state/stint)")
	f.defineStore(flags)
	flags.IntVar(&f.maxKeys, "max-keys", stint.DefaultMaxKeys, "how many keys the memory store holds")
	flags.IntVar(&f.maxCallerKeys, "max-caller-keys", 0, "how many more it holds of limits that callers bring, as to /v1/take (default half of --max-keys)")
}

func (f *serveFlags) defineStore(flags *pflag.FlagSet) {
	flags.StringVar(&f.store, "store", memoryStore, "where keys are counted: memory, or the `URL` of what nodes share, such as redis://host:6379/0 or stint://host:8081")
	flags.StringVar(&f.storePasswordFile, "store-password-file", "", "`FILE` with the password of the store")
	flags.DurationVar(&f.storeDeadline, "store-deadline", guard.DefaultDeadline, "how long a check waits for a shared store")
	flags.DurationVar(&f.storeSlow, "store-slow", guard.DefaultBreaker().SlowAfter, "a shared store is left alone while one call in a hundred takes so long; 0: never for that")
	flags.StringVar(&f.storeClock, "store-clock", clockOfStore, "whose clock a shared store counts by: store or node")
	flags.DurationVar(&f.leaseTime, "lease-time", lease.DefaultTime, "how long tokens of a rule with consistency: leased may be held (10ms to 10s)")
	flags.StringVar(&f.keyPrefix, "key-prefix", defaultKeyPrefix, "prefix of keys in a shared store")
	flags.Int64Var(&f.maxCallerBytes, "max-caller-bytes", redisstore.DefaultCallerBytes, "how many bytes this node keeps in Redis for limits that callers bring")
	flags.IntVar(&f.nodes, "nodes", 0, "how many nodes share the limits while a shared store fails (default those that announce themselves in it)")
}

func (f *serveFlags) defineListeners(flags *pflag.FlagSet) {
	flags.StringVar(&f.http, "http", ":8080", "`ADDR` of the check API, forward auth and health, or off")
	flags.StringVar(&f.grpc, "grpc", ":8081", "`ADDR` of gRPC (the native protocol, Envoy's rate limit service, health, reflection), or off")
	flags.StringVar(&f.admin, "admin", "127.0.0.1:6070", "`ADDR` of metrics and administration, or off")
	flags.StringVar(&f.resp, "resp", off, "`ADDR` of the Redis protocol (CL.THROTTLE), or off")
	flags.StringVar(&f.gateway, "gateway", off, "`ADDR` of the reverse proxy, or off")
	flags.StringSliceVar(&f.upstreams, "upstream", nil, "`URL,...` that the gateway passes requests on to")
	flags.StringVar(&f.gatewayAdapt, "gateway-adapt", off, "shed what the upstreams cannot answer in time: gradient (by latency against the usual), aimd (by --gateway-slow), or off")
	flags.IntVar(&f.gatewayMax, "gateway-max", defaultGatewayMax, "with --gateway-adapt, the most requests in flight")
	flags.DurationVar(&f.gatewaySlow, "gateway-slow", defaultGatewaySlow, "with --gateway-adapt aimd, the mean latency that is too long")
	flags.IntVar(&f.closeAfter, "gateway-close-after", defaultCloseAfter, "end a connection to the gateway after so many denials in a row; 0: never")
	flags.StringVar(&f.envoyConfig, "envoy-config", "", "`DIR` with the files of Envoy's rate limit service, followed as they change; served on --grpc, and on --http at /json")
	flags.BoolVar(&f.envoyCompat, "envoy-compat", false, "count as Envoy's own service does, and read its environment variables")
	flags.BoolVar(&f.envoyHeaders, "envoy-headers", false, "have Envoy add RateLimit-Limit, -Remaining and -Reset to its responses")
}

func (f *serveFlags) defineSecurity(flags *pflag.FlagSet) {
	flags.StringSliceVar(&f.trusted, "trusted-proxies", nil, "`CIDR,...` of the proxies that may say who their client is")
	flags.StringVar(&f.pathEncoding, "path-encoding", "decode", "how upstreams read %2F and ;x in paths, and so the rules: decode (/ and nothing), keep (part of a segment), or reject (such requests are refused)")
	flags.StringVar(&f.httpTokenFile, "http-token-file", "", "`FILE` with the bearer token that --http and --grpc ask for, and --resp as its password")
	flags.BoolVar(&f.envoyWithoutToken, "envoy-without-token", false, "with --http-token-file, answer Envoy's rate limit and authorization services on --grpc also without the token, for gateways that cannot send one")
	flags.StringVar(&f.adminTokenFile, "admin-token-file", "", "`FILE` with the bearer token that --admin asks for; needed beyond loopback")
	flags.StringVar(&f.impactLimit, "impact-limit", "5%", "`SHARE` of the requests allowed in the last minutes that another rule set may deny before it is refused, or off")
	flags.StringVar(&f.adminTokensFile, "admin-tokens-file", "", "`FILE` with the hashes of tokens for --admin, each with a name and a role: viewer, operator or admin")
	flags.StringVar(&f.tlsCert, "tls-cert", "", "PEM `FILE` of the certificate of every listener")
	flags.StringVar(&f.tlsKey, "tls-key", "", "PEM `FILE` of its key")
	flags.StringVar(&f.clientCA, "client-ca", "", "PEM `FILE` of the authorities that sign client certificates; makes them required")
	flags.BoolVar(&f.profiling, "pprof", false, "serve profiles on --admin at /debug/pprof/")
}

// logger is what the server logs to.
func (f *serveFlags) logger(w logWriter) (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(f.logLevel)); err != nil {
		return nil, usagef("log-level: %q is not a level (use debug, info, warn or error)", f.logLevel)
	}
	options := &slog.HandlerOptions{Level: level}
	switch f.logFormat {
	case "text":
		return slog.New(slog.NewTextHandler(w, options)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, options)), nil
	}
	return nil, usagef("log-format: %q is not a format (use text or json)", f.logFormat)
}

// warn says what was asked for and has no effect.
func (f *serveFlags) warn(log *slog.Logger) {
	f.envoy.tell(log)
	if len(f.shown) > 0 {
		log.Warn("everybody on this machine who can list processes sees the password on the command line "+
			"(use --store-password-file or --rules-password-file, or the environment)", "flags", f.shown)
	}
	if f.nodes > 1 && f.store == memoryStore {
		log.Warn(fmt.Sprintf("the memory store counts in each process: %d nodes admit up to %d times each limit", f.nodes, f.nodes))
	}
}
