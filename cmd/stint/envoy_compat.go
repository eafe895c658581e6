package main

import (
	"cmp"
	"net"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/stintdev/stint/cmd/stint/internal/server"
)

// envoySettings are settings that only the environment variables of Envoy's rate
// limit service can make, and no flag.
type envoySettings struct {
	shadow, quota, stop, metadata bool
	merge                         bool                 // several files may describe one domain
	headers                       *server.EnvoyHeaders // nil: the default names
	grpcTLS                       server.TLSFiles      // of gRPC alone; zero: those of the flags
	maxAge, maxAgeGrace           time.Duration        // maximum age of a connection to gRPC
	anyRedisName                  bool                 // accept a certificate of Redis for another host
	nearRatio                     float64              // from which hits are near a limit; 0: the default
	notes                         []string             // variables without effect, for the log
}

// environment holds variables by name. Empty ones are left out.
type environment map[string]string

func newEnvironment(variables []string) environment {
	e := environment{}
	for _, v := range variables {
		if name, value, _ := strings.Cut(v, "="); value != "" {
			e[name] = value
		}
	}
	return e
}

// or returns a variable, or its default.
func (e environment) or(name, byDefault string) string {
	return cmp.Or(e[name], byDefault)
}

// truth returns a variable that is true or false, by default false.
func (e environment) truth(name string) (bool, error) {
	value, err := strconv.ParseBool(e.or(name, "false"))
	if err != nil {
		return false, usagef("%s: %q is not a truth value (use true or false)", name, e[name])
	}
	return value, nil
}

// duration returns a variable that is a length of time, by default 0.
func (e environment) duration(name string) (time.Duration, error) {
	d, err := time.ParseDuration(e.or(name, "0s"))
	if err != nil || d < 0 {
		return 0, usagef("%s: %q is not a duration (write it as 30m)", name, e[name])
	}
	return d, nil
}

// applyEnvoy sets the flags that still have their defaults from the environment
// variables of Envoy's rate limit service. It does nothing without
// --envoy-compat.
func (f *serveFlags) applyEnvoy(flags *pflag.FlagSet, variables []string) error {
	if !f.envoyCompat {
		return nil
	}
	env := newEnvironment(variables)
	if err := env.checkSupported(); err != nil {
		return err
	}
	settings, err := env.flags()
	if err != nil {
		return err
	}
	for _, s := range settings {
		flag := flags.Lookup(s.flag)
		if s.value == "" || flag.Changed || flag.Value.String() != flag.DefValue {
			continue
		}
		if err := set(flag, s.from, s.value); err != nil {
			return err
		}
		if s.flag == "store" {
			f.envoy.anyRedisName, err = env.truth("REDIS_TLS_SKIP_HOSTNAME_VERIFICATION")
		}
	}
	if err != nil {
		return err
	}
	return f.envoy.read(env)
}

// read sets the settings that have no flag.
func (s *envoySettings) read(env environment) (err error) {
	for _, t := range []struct {
		name string
		to   *bool
	}{
		{"SHADOW_MODE", &s.shadow}, {"QUOTA_MODE", &s.quota}, {"RESPONSE_DYNAMIC_METADATA", &s.metadata},
		{"STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT", &s.stop}, {"MERGE_DOMAIN_CONFIG", &s.merge},
	} {
		if *t.to, err = env.truth(t.name); err != nil {
			return err
		}
	}
	if s.maxAge, err = env.duration("GRPC_MAX_CONNECTION_AGE"); err != nil {
		return err
	}
	if s.maxAgeGrace, err = env.duration("GRPC_MAX_CONNECTION_AGE_GRACE"); err != nil {
		return err
	}
	if s.grpcTLS, err = env.grpcTLS(); err != nil {
		return err
	}
	if s.nearRatio, err = env.nearRatio(); err != nil {
		return err
	}
	defaults := server.DefaultEnvoyHeaders()
	s.headers = &server.EnvoyHeaders{
		Limit:     env.or("LIMIT_LIMIT_HEADER", defaults.Limit),
		Remaining: env.or("LIMIT_REMAINING_HEADER", defaults.Remaining),
		Reset:     env.or("LIMIT_RESET_HEADER", defaults.Reset),
	}
	s.notes = env.notes()
	return nil
}

// apply sets the settings in the configuration.
func (s *envoySettings) apply(c *server.Config) {
	c.EnvoyShadow, c.EnvoyQuota, c.EnvoyStop, c.EnvoyMetadata, c.EnvoyMerge = s.shadow, s.quota, s.stop, s.metadata, s.merge
	c.EnvoyNearRatio = s.nearRatio
	c.GRPCMaxAge, c.GRPCMaxAgeGrace = s.maxAge, s.maxAgeGrace
	if c.TLS.Cert == "" { // flags take precedence
		c.GRPCTLS = s.grpcTLS
	}
}

// envoySetting is the value of a flag that a variable sets; empty: the variable
// is absent.
type envoySetting struct{ flag, from, value string }

// flags returns the settings that have a flag.
func (e environment) flags() ([]envoySetting, error) {
	store, err := e.store()
	if err != nil {
		return nil, err
	}
	headers, err := e.truth("LIMIT_RESPONSE_HEADERS_ENABLED")
	return []envoySetting{
		{"http", "PORT", e.address("HOST", "PORT", "8080")},
		{"grpc", "GRPC_PORT", e.address("GRPC_HOST", "GRPC_PORT", "8081")},
		{"envoy-config", "RUNTIME_ROOT", e.folder()},
		{"store", "REDIS_URL", store},
		{"key-prefix", "CACHE_KEY_PREFIX", e["CACHE_KEY_PREFIX"]},
		{"envoy-headers", "LIMIT_RESPONSE_HEADERS_ENABLED", strconv.FormatBool(headers)},
		{"log-format", "LOG_FORMAT", strings.ToLower(e["LOG_FORMAT"])},
	}, err
}

// address returns the address to listen on, or "" if no variable sets it.
func (e environment) address(host, port, defaultPort string) string {
	if e[host] == "" && e[port] == "" {
		return ""
	}
	return net.JoinHostPort(e[host], e.or(port, defaultPort))
}

// folder returns the folder of the configuration, or "" if no variable sets it.
func (e environment) folder() string {
	if e["RUNTIME_ROOT"] == "" && e["RUNTIME_SUBDIRECTORY"] == "" && e["RUNTIME_APPDIRECTORY"] == "" {
		return ""
	}
	return path.Join(e.or("RUNTIME_ROOT", "/srv/runtime_data/current"), e["RUNTIME_SUBDIRECTORY"], e.or("RUNTIME_APPDIRECTORY", "config"))
}

// envoyHeaderNames returns the names of the headers that Envoy adds, or nil if it
// adds none.
func (f *serveFlags) envoyHeaderNames() *server.EnvoyHeaders {
	switch {
	case !f.envoyHeaders:
		return nil
	case f.envoy.headers == nil:
		return server.DefaultEnvoyHeaders()
	}
	return f.envoy.headers
}

// checkSupported rejects variables that ask for something that Stint does
// differently or not at all. Each row has the only value that is supported.
func (e environment) checkSupported() error {
	for _, v := range []struct{ name, supported, reason string }{
		{"BACKEND_TYPE", "redis", "counters live in Redis or in memory"},
		{"CONFIG_TYPE", "FILE", "the configuration is read from files"},
		{"USE_CALENDAR_MONTH_RATE_LIMIT", "false", "a month is 30 days here; a rule file can count by calendar months"},
		{"GRPC_UDS", "", "gRPC listens on TCP; give GRPC_HOST and GRPC_PORT"},
	} {
		if value := e.or(v.name, v.supported); !strings.EqualFold(value, v.supported) {
			return usagef("%s: %q is not supported (%s)", v.name, value, v.reason)
		}
	}
	return nil
}

// grpcTLS returns the TLS files of gRPC alone, if the variables enable it.
func (e environment) grpcTLS() (files server.TLSFiles, err error) {
	used, err := e.truth("GRPC_SERVER_USE_TLS")
	if err != nil || !used {
		return files, err
	}
	files = server.TLSFiles{Cert: e["GRPC_SERVER_TLS_CERT"], Key: e["GRPC_SERVER_TLS_KEY"], ClientCA: e["GRPC_CLIENT_TLS_CACERT"], ClientName: e["GRPC_CLIENT_TLS_SAN"]}
	switch {
	case files.Cert == "" || files.Key == "":
		err = usagef("GRPC_SERVER_USE_TLS: needs a certificate and its key (give GRPC_SERVER_TLS_CERT and GRPC_SERVER_TLS_KEY)")
	case files.ClientName != "" && files.ClientCA == "":
		err = usagef("GRPC_CLIENT_TLS_SAN: needs GRPC_CLIENT_TLS_CACERT, the authority that signs that name")
	}
	return files, err
}

// nearRatio returns the share of a limit from which hits count as near it, or 0.
func (e environment) nearRatio() (float64, error) {
	const name = "NEAR_LIMIT_RATIO"
	if e[name] == "" {
		return 0, nil
	}
	ratio, err := strconv.ParseFloat(e[name], 64)
	if err != nil || !(ratio > 0 && ratio <= 1) {
		return 0, usagef("%s: %.40q is not a share (write it as 0.8)", name, e[name])
	}
	return ratio, nil
}

// notes returns a log line for each kind of variable that is set but has no
// effect.
func (e environment) notes() (lines []string) {
	if separate, _ := e.truth("REDIS_PERSECOND"); separate {
		lines = append(lines, "REDIS_PERSECOND: limits per second are counted in the same store as all others")
	}
	if e["LOG_LEVEL"] != "" {
		lines = append(lines, "LOG_LEVEL: has no effect, because Stint logs at other levels (give --log-level)")
	}
	if names := e.withoutEffect(); len(names) > 0 {
		lines = append(lines, "these variables have no effect: "+strings.Join(names, " "))
	}
	return lines
}

// withoutEffect returns the variables that are set and that Stint needs not.
func (e environment) withoutEffect() (names []string) {
	for _, name := range []string{
		"CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS", "CONFIG_GRPC_XDS_CLIENT_TLS_CERT", "CONFIG_GRPC_XDS_CLIENT_TLS_KEY", "CONFIG_GRPC_XDS_NODE_ID",
		"CONFIG_GRPC_XDS_NODE_METADATA", "CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL", "CONFIG_GRPC_XDS_SERVER_TLS_CACERT",
		"CONFIG_GRPC_XDS_SERVER_TLS_SAN", "CONFIG_GRPC_XDS_SERVER_URL", "CONFIG_GRPC_XDS_SERVER_USE_TLS",
		"DEBUG_HOST", "DEBUG_PORT", "DISABLE_STATS", "EXPIRATION_JITTER_MAX_SECONDS", "EXTRA_TAGS",
		"FORCE_START_WITHOUT_INITIAL_CONFIG", "HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED", "LOCAL_CACHE_SIZE_IN_BYTES",
		"MEMCACHE_HOST_PORT", "MEMCACHE_MAX_IDLE_CONNS", "MEMCACHE_SRV", "MEMCACHE_SRV_REFRESH", "MEMCACHE_TLS", "MEMCACHE_TLS_CACERT",
		"MEMCACHE_TLS_CLIENT_CERT", "MEMCACHE_TLS_CLIENT_KEY", "MEMCACHE_TLS_SKIP_HOSTNAME_VERIFICATION",
		"PROMETHEUS_ADDR", "PROMETHEUS_MAPPER_YAML", "PROMETHEUS_PATH",
		"REDIS_HEALTH_CHECK_ACTIVE_CONNECTION", "REDIS_PERSECOND_AUTH", "REDIS_PERSECOND_AUTH_FILE", "REDIS_PERSECOND_PIPELINE_LIMIT",
		"REDIS_PERSECOND_PIPELINE_WINDOW", "REDIS_PERSECOND_POOL_ON_EMPTY_BEHAVIOR", "REDIS_PERSECOND_POOL_SIZE", "REDIS_PERSECOND_SENTINEL_AUTH",
		"REDIS_PERSECOND_SOCKET_TYPE", "REDIS_PERSECOND_TIMEOUT", "REDIS_PERSECOND_TLS", "REDIS_PERSECOND_TYPE", "REDIS_PERSECOND_URL",
		"REDIS_PIPELINE_LIMIT", "REDIS_PIPELINE_WINDOW", "REDIS_POOL_ON_EMPTY_BEHAVIOR", "REDIS_POOL_SIZE", "REDIS_TIMEOUT",
		"RUNTIME_IGNOREDOTFILES", "RUNTIME_WATCH_ROOT", "STATSD_HOST", "STATSD_PORT", "STATS_FLUSH_INTERVAL",
		"TRACING_ENABLED", "TRACING_EXPORTER_PROTOCOL", "TRACING_SAMPLING_RATE", "TRACING_SERVICE_INSTANCE_ID", "TRACING_SERVICE_NAME",
		"TRACING_SERVICE_NAMESPACE", "USE_DOG_STATSD", "USE_DOG_STATSD_MOGRIFIERS", "USE_PROMETHEUS", "USE_STATSD",
		"XDS_CLIENT_BACKOFF_INITIAL_INTERVAL", "XDS_CLIENT_BACKOFF_JITTER", "XDS_CLIENT_BACKOFF_MAX_INTERVAL",
		"XDS_CLIENT_BACKOFF_RANDOM_FACTOR", "XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES",
	} {
		if e[name] != "" {
			names = append(names, name)
		}
	}
	return names
}
