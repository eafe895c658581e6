package main

import (
	"fmt"
	"io"
	"log/slog"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/guard"
	"github.com/stintdev/stint/lease"
	"github.com/stintdev/stint/redisstore"
)

// serveFlags are the flags of stint serve.
type serveFlags struct {
	configFile                       string
	rules, store, storePasswordFile  string      // the latter two of the default store
	stores, storePasswords           namedValues // of store and storePasswordFile, and of named stores
	rulesPasswordFile, stateDir      string
	keyPrefix, storeClock, clock     string
	storeDeadline, storeSlow         time.Duration
	leaseTime                        timeOrOff
	http, grpc, admin, resp, gateway string
	upstreams, trusted               []string
	gatewayConfig, gatewayAdapt      string
	gatewayMax, closeAfter           int
	perAddress                       int
	gatewaySlow, refuseFor           time.Duration
	identity                         []string
	jwtKeys, jwtFrom, jwtInvalid     string
	jwtAlgorithms                    []string
	jwtIssuer, jwtAudience           string
	jwtLeeway                        time.Duration
	pathEncoding                     string
	envoyConfig, envoyConsistency    string
	envoyHeaders, envoyCompat        bool
	envoyWithoutToken                bool
	envoy                            envoySettings // settings from the environment
	nodes, maxKeys, maxCallerKeys    int
	maxCallerBytes                   int64
	maxRequestIDBytes                int64
	httpTokenFile, adminTokenFile    string
	adminTokensFile, impactLimit     string
	adminHosts                       []string
	nearLimit                        string
	nativeHistograms                 bool
	tlsCert, tlsKey, clientCA        string
	logFormat, logLevel              string
	otlp, statsd                     string
	decisionLog                      decisionLogFlags
	hotKeyRate                       int64
	drainDelay                       time.Duration
	profiling                        bool
	exposed                          []string // flags with a password on the command line
}

// Defaults that other code compares with or shares.
const (
	memoryStore        = "memory" // the store in the memory of the process
	defaultKeyPrefix   = "stint"
	defaultCloseAfter  = 1000 // denials in a row that only a client without backoff reaches
	defaultGatewayMax  = 1000
	defaultHotKeyRate  = 10_000
	defaultGatewaySlow = time.Second
	defaultLeeway      = 30 * time.Second
	jwtMissing         = "missing"
	jwtReject          = "reject"
	off                = "off" // as an address: disables the listener
)

// timeOrOff is the value of a flag that takes a duration or off. Off is below 0.
type timeOrOff time.Duration

const timeOff timeOrOff = math.MinInt64

// Set reads the value.
func (t *timeOrOff) Set(text string) error {
	if text == off {
		*t = timeOff
		return nil
	}
	d, err := time.ParseDuration(text)
	*t = timeOrOff(d)
	return err
}

// String returns the value as Set reads it.
func (t *timeOrOff) String() string {
	if *t == timeOff {
		return off
	}
	return time.Duration(*t).String()
}

// Type returns the kind of the value.
func (t *timeOrOff) Type() string { return "durationOrOff" }

func (f *serveFlags) define(flags *pflag.FlagSet) {
	flags.SortFlags = false
	flags.StringVar(&f.configFile, "config", "", "read settings from this YAML `FILE`, whose keys are names of flags")
	grouped(flags, "Rules", f.defineRules)
	grouped(flags, "Store", f.defineStore)
	grouped(flags, "Listeners", f.defineListeners)
	grouped(flags, "Gateway", f.defineGateway)
	grouped(flags, "Envoy", f.defineEnvoy)
	grouped(flags, "Identity", f.defineIdentity)
	grouped(flags, "Security", f.defineSecurity)
	grouped(flags, "Operation", f.defineOperation)
	grouped(flags, "Decision log", f.decisionLog.define)
}

func (f *serveFlags) defineOperation(flags *pflag.FlagSet) {
	flags.StringVar(&f.logFormat, "log-format", "text", "format of log lines: text or json")
	flags.StringVar(&f.logLevel, "log-level", "info", "least level of log lines: debug, info, warn or error")
	flags.StringVar(&f.otlp, "otlp", "", "`URL` of an OpenTelemetry collector to send metrics, traces and --decision-log otlp to: http://host:4318 or grpc://host:4317, or with https or grpcs; the variables OTEL_* apply")
	flags.StringVar(&f.statsd, "statsd", "", "`ADDR` of StatsD to send metrics to every 10 s: host:port, udp://host:port or unix:///path, with ?tags=none for one without DogStatsD's tags")
	flags.Int64Var(&f.hotKeyRate, "hot-key-rate", defaultHotKeyRate, "report a key with this number of requests a second to this node, and apply hot_key of penalties to it; 0 watches for none")
	flags.StringVar(&f.nearLimit, "near-limit", "20%", "count requests that leave less than this `SHARE` of a limit as near it, in the metrics; or off")
	flags.BoolVar(&f.nativeHistograms, "native-histograms", false, "add native buckets to the histograms of /metrics, for scrapers that ask for protobuf")
	flags.DurationVar(&f.drainDelay, "drain-delay", time.Second, "time to go on accepting connections after SIGTERM while /readyz answers 503, at most 8s")
	flags.BoolVar(&f.profiling, "pprof", false, "serve profiles on --admin at /debug/pprof/")
}

func (f *serveFlags) defineRules(flags *pflag.FlagSet) {
	flags.StringVar(&f.rules, "rules", "", "`FILE|DIR|URL` of the rules, reloaded when they change; a URL is redis://… or postgres://… (default built-in example rules)")
	flags.StringVar(&f.rulesPasswordFile, "rules-password-file", "", "`FILE` with the password of rules in Redis or PostgreSQL")
	flags.StringVar(&f.stateDir, "state-dir", "", "`DIR` for the history of rule files and a local copy of rules in a database, or off (default $STATE_DIRECTORY, else ~/.local/state/stint)")
	flags.StringVar(&f.impactLimit, "impact-limit", "5%", "greatest `SHARE` of the recently allowed requests that new rules may deny, else they are refused; or off")
}

func (f *serveFlags) defineStore(flags *pflag.FlagSet) {
	f.store = memoryStore
	f.stores = namedValues{begins: beginsStore, unnamed: &f.store}
	f.storePasswords = namedValues{begins: beginsPassword, unnamed: &f.storePasswordFile}
	flags.Var(&f.stores, "store", "`[NAME=]URL` of the store that counts: memory, or a shared store such as redis://host:6379/0, redis+unix:///run/redis.sock, redis-quorum://host1,host2,host3, postgres://user@host/database, memcached://host1,host2, dynamodb://table or stint://host:8081; repeat it with a NAME for stores that rules name")
	flags.Var(&f.storePasswords, "store-password-file", "`[NAME=]FILE` with the password of the store, or the token of stint://; repeat it for named stores")
	flags.DurationVar(&f.storeDeadline, "store-deadline", guard.DefaultDeadline, "longest wait of a check for a shared store; then the rule's on_store_failure decides")
	flags.DurationVar(&f.storeSlow, "store-slow", guard.DefaultBreaker().SlowAfter, "open the circuit of a shared store when one call in a hundred, and at least 3 in 3 s, takes this long; 0 disables")
	flags.StringVar(&f.storeClock, "store-clock", clockOfStore, "clock that a shared store counts by: store or node")
	f.leaseTime = timeOrOff(lease.DefaultTime)
	flags.Var(&f.leaseTime, "lease-time", "longest `TIME` to hold tokens of a rule, or of a limit of Envoy's, with consistency: leased, 10ms to 10s, or off: every check asks the store")
	flags.StringVar(&f.keyPrefix, "key-prefix", defaultKeyPrefix, "prefix of keys in a shared store, and of keys or tables of rules in a database")
	flags.IntVar(&f.nodes, "nodes", 0, "number of nodes that share the limits while a shared store fails; 0 counts the nodes that announce themselves in it")
	flags.Int64Var(&f.maxCallerBytes, "max-caller-bytes", redisstore.DefaultCallerBytes, "most bytes that this node keeps in a shared store for limits that callers bring")
	flags.Int64Var(&f.maxRequestIDBytes, "max-request-id-bytes", redisstore.DefaultOnceBytes, "most bytes that this node keeps, in Redis or in memory, for request ids of the last minute")
	flags.IntVar(&f.maxKeys, "max-keys", stint.DefaultMaxKeys, "most keys that the memory store holds")
	flags.IntVar(&f.maxCallerKeys, "max-caller-keys", 0, "most further keys that the memory store holds for limits that callers bring, as to /v1/take; 0 is half of --max-keys")
	flags.StringVar(&f.clock, "clock", clockAuto, "what the memory store reads the time from: auto (the processor's counter where the kernel itself keeps time by it, else the kernel) or kernel")
}

func (f *serveFlags) defineListeners(flags *pflag.FlagSet) {
	flags.StringVar(&f.http, "http", ":8080", "`ADDR` of the check API, forward auth and health, or off")
	flags.StringVar(&f.grpc, "grpc", ":8081", "`ADDR` of gRPC (the native protocol, Envoy's rate limit service, health, reflection), or off")
	flags.StringVar(&f.admin, "admin", "127.0.0.1:6070", "`ADDR` of metrics and the admin API, or off")
	flags.StringVar(&f.resp, "resp", off, "`ADDR` of the Redis protocol (CL.THROTTLE), or off")
	flags.StringVar(&f.gateway, "gateway", off, "`ADDR` of the reverse proxy, or off")
}

func (f *serveFlags) defineGateway(flags *pflag.FlagSet) {
	flags.StringSliceVar(&f.upstreams, "upstream", nil, "`URL,...` of the servers that the gateway forwards requests to")
	flags.StringVar(&f.gatewayConfig, "gateway-config", "", "`FILE` with groups of upstreams and the routes to them, by host and path, instead of --upstream")
	flags.StringVar(&f.gatewayAdapt, "gateway-adapt", off, "shed requests that the upstreams cannot answer in time: gradient (against their usual latency), aimd (against --gateway-slow), or off")
	flags.IntVar(&f.gatewayMax, "gateway-max", defaultGatewayMax, "with --gateway-adapt, most requests in flight")
	flags.DurationVar(&f.gatewaySlow, "gateway-slow", defaultGatewaySlow, "with --gateway-adapt aimd, mean latency that is too long, at least 1ms")
	flags.IntVar(&f.closeAfter, "gateway-close-after", defaultCloseAfter, "close a client's connection to the gateway after this number of denials in a row; 0 disables")
	flags.DurationVar(&f.refuseFor, "gateway-refuse-for", 0, "count the denials of --gateway-close-after by client address, too: then close all connections of the address, and refuse new ones for this time, such as 10s; name all proxies in --trusted-proxies first; 0 disables")
	flags.IntVar(&f.perAddress, "gateway-connections-per-address", 0, "most connections of one client address to the gateway; 0 sets no bound")
}

func (f *serveFlags) defineEnvoy(flags *pflag.FlagSet) {
	flags.StringVar(&f.envoyConfig, "envoy-config", "", "`DIR` with configuration files of Envoy's rate limit service, reloaded when they change; served on --grpc, and on --http at /json")
	flags.StringVar(&f.envoyConsistency, "envoy-consistency", stint.Strict.String(), "consistency of limits of --envoy-config that name none: strict, leased or partitioned")
	flags.BoolVar(&f.envoyCompat, "envoy-compat", false, "count as Envoy's own service does, and read its environment variables")
	flags.BoolVar(&f.envoyHeaders, "envoy-headers", false, "have Envoy add RateLimit-Limit, -Remaining and -Reset to its responses")
}

func (f *serveFlags) defineIdentity(flags *pflag.FlagSet) {
	flags.StringSliceVar(&f.identity, "identity", nil, "`SOURCE,...` of the api_key of a request, in order: bearer, header:NAME, header:NAME:SCHEME, query:NAME, cookie:NAME or jwt:CLAIM (default bearer,header:X-API-Key)")
	flags.StringVar(&f.jwtKeys, "jwt-keys", "", "`FILE|URL` of the keys that verify JSON Web Tokens: a JSON Web Key Set, or a PEM file; a URL is https://…")
	flags.StringSliceVar(&f.jwtAlgorithms, "jwt-algorithms", nil, "`ALG,...` that tokens may be signed with, such as RS256,ES256 (default all that the kind of the key verifies)")
	flags.StringVar(&f.jwtIssuer, "jwt-issuer", "", "issuer (iss) that tokens must have")
	flags.StringVar(&f.jwtAudience, "jwt-audience", "", "audience (aud) that tokens must have")
	flags.DurationVar(&f.jwtLeeway, "jwt-leeway", defaultLeeway, "difference of clocks that is tolerated when tokens begin or expire")
	flags.StringVar(&f.jwtFrom, "jwt-from", "bearer", "`SOURCE` of the token of a request: bearer, header:NAME, query:NAME or cookie:NAME")
	flags.StringVar(&f.jwtInvalid, "jwt-invalid", jwtMissing, "what a token that cannot be verified does: missing (the request counts as one without it) or reject (401)")
}

func (f *serveFlags) defineSecurity(flags *pflag.FlagSet) {
	flags.StringSliceVar(&f.trusted, "trusted-proxies", nil, "`CIDR,...` of proxies that may name the client's address")
	flags.StringVar(&f.pathEncoding, "path-encoding", "decode", "how your application reads %2F and ;x in paths, and so the rules: decode (%2F is /, ;x is dropped), keep (both are text), or reject (refuse such requests)")
	flags.StringVar(&f.httpTokenFile, "http-token-file", "", "`FILE` with the bearer token that --http and --grpc require, and --resp as its password")
	flags.BoolVar(&f.envoyWithoutToken, "envoy-without-token", false, "with --http-token-file, answer Envoy's rate limit and authorization services on --grpc without the token")
	flags.StringVar(&f.adminTokenFile, "admin-token-file", "", "`FILE` with the bearer token that --admin requires; needed beyond loopback")
	flags.StringVar(&f.adminTokensFile, "admin-tokens-file", "", "`FILE` of further tokens for --admin as hashes, each with a name and a role: viewer, operator or admin")
	flags.StringSliceVar(&f.adminHosts, "admin-hosts", nil, "further host `NAME,...` under which browsers reach --admin, such as that of a proxy before it")
	flags.StringVar(&f.tlsCert, "tls-cert", "", "PEM `FILE` of the certificate of every listener")
	flags.StringVar(&f.tlsKey, "tls-key", "", "PEM `FILE` of the certificate's key")
	flags.StringVar(&f.clientCA, "client-ca", "", "PEM `FILE` of the authorities that sign client certificates; makes a client certificate required")
}

// logger returns the logger of the server, which writes to w.
func (f *serveFlags) logger(w io.Writer) (*slog.Logger, error) {
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

// warn logs settings that are valid but probably not intended.
func (f *serveFlags) warn(log *slog.Logger) {
	for _, note := range f.envoy.notes {
		log.Info("envoy-compat: " + note)
	}
	if len(f.exposed) > 0 {
		log.Warn("every user who can list processes can read the password on the command line "+
			"(use --store-password-file or --rules-password-file, or the environment)", "flags", f.exposed)
	}
	inMemory := func(n named) bool { return n.value == memoryStore }
	if f.nodes > 1 && (f.store == memoryStore || slices.ContainsFunc(f.stores.named, inMemory)) {
		log.Warn(fmt.Sprintf("the memory store counts in each process: %d nodes together admit up to %[1]d times each limit (use a shared --store)", f.nodes))
	}
}

// passwordsOnCommandLine returns the flags on the command line whose URL has a
// password.
func (f *serveFlags) passwordsOnCommandLine(from origins) (flags []string) {
	for _, given := range []struct{ flag, urls string }{
		{"store", f.stores.String()}, {"rules", f.rules}, {"upstream", strings.Join(f.upstreams, " ")},
	} {
		if origin, ok := from[given.flag]; ok && origin == "" && passwordInURL.MatchString(given.urls) {
			flags = append(flags, given.flag)
		}
	}
	return flags
}

// passwordInURL matches the password of a user, and a parameter with a password.
var passwordInURL = regexp.MustCompile(`://[^/?#\s]*:[^/?#\s]+@|[?&][a-z_]*password=.`)
