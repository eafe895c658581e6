package main

import (
	"log/slog"
	"net"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/stintdev/stint/cmd/stint/internal/server"
)

// envoySettings are what the environment variables of Envoy's rate limit
// service say that no flag does.
type envoySettings struct {
	shadow, quota, stop, metadata bool
	merge                         bool                 // several files may describe one domain
	headers                       *server.EnvoyHeaders // nil: the usual names
	grpcTLS                       server.TLSFiles      // of gRPC alone; zero: those of the flags
	maxAge, maxAgeGrace           time.Duration        // of a connection to gRPC
	anyRedisName                  bool                 // the certificate of Redis may be for another host
	told                          []string             // what the log says of variables
}

// environment is variables by name, the empty ones left out.
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

// or is a variable, or what it is when it is not there.
func (e environment) or(name, otherwise string) string {
	if value := e[name]; value != "" {
		return value
	}
	return otherwise
}

// truth is a variable that is true or false.
func (e environment) truth(name string) (bool, error) {
	value, err := strconv.ParseBool(e.or(name, "false"))
	if err != nil {
		return false, usagef("%s: %q is not a truth value (use true or false)", name, e[name])
	}
	return value, nil
}

// duration is a variable that is a length of time, 0 when it is not there.
func (e environment) duration(name string) (time.Duration, error) {
	d, err := time.ParseDuration(e.or(name, "0s"))
	if err != nil || d < 0 {
		return 0, usagef("%s: %q is not a length of time (write it as 30m)", name, e[name])
	}
	return d, nil
}

// layerEnvoy completes the flags that nothing of Stint's has set from the
// environment variables of Envoy's rate limit service.
func (f *serveFlags) layerEnvoy(flags *pflag.FlagSet, variables []string) error {
	if !f.envoyCompat {
		return nil
	}
	env := newEnvironment(variables)
	if err := env.refuse(); err != nil {
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

// read is what the variables say that no flag does.
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
	s.headers, s.told = env.headers(), env.told()
	return nil
}

// apply completes the configuration.
func (s *envoySettings) apply(c *server.Config) {
	c.EnvoyShadow, c.EnvoyQuota, c.EnvoyStop, c.EnvoyMetadata, c.EnvoyMerge = s.shadow, s.quota, s.stop, s.metadata, s.merge
	c.GRPCMaxAge, c.GRPCMaxAgeGrace = s.maxAge, s.maxAgeGrace
	if c.TLS.Cert == "" { // a flag wins
		c.GRPCTLS = s.grpcTLS
	}
}

// tell says what comes of variables that are accepted and not followed.
func (s *envoySettings) tell(log *slog.Logger) {
	for _, line := range s.told {
		log.Info("envoy-compat: " + line)
	}
}

// envoySetting is what a variable makes of a flag.
type envoySetting struct{ flag, from, value string }

// flags are the settings of a variable that a flag has too.
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

// address is where to listen, if a variable says so.
func (e environment) address(host, port, usual string) string {
	if e[host] == "" && e[port] == "" {
		return ""
	}
	return net.JoinHostPort(e[host], e.or(port, usual))
}

// folder is where the configuration is, if a variable says so.
func (e environment) folder() string {
	if e["RUNTIME_ROOT"] == "" && e["RUNTIME_SUBDIRECTORY"] == "" && e["RUNTIME_APPDIRECTORY"] == "" {
		return ""
	}
	return path.Join(e.or("RUNTIME_ROOT", "/srv/runtime_data/current"), e["RUNTIME_SUBDIRECTORY"], e.or("RUNTIME_APPDIRECTORY", "config"))
}

func (e environment) headers() *server.EnvoyHeaders {
	usual := server.DefaultEnvoyHeaders()
	return &server.EnvoyHeaders{
		Limit:     e.or("LIMIT_LIMIT_HEADER", usual.Limit),
		Remaining: e.or("LIMIT_REMAINING_HEADER", usual.Remaining),
		Reset:     e.or("LIMIT_RESET_HEADER", usual.Reset),
	}
}

// envoyHeaderNames are the headers that Envoy adds, nil for none.
func (f *serveFlags) envoyHeaderNames() *server.EnvoyHeaders {
	switch {
	case !f.envoyHeaders:
		return nil
	case f.envoy.headers == nil:
		return server.DefaultEnvoyHeaders()
	}
	return f.envoy.headers
}

// refuse names what would be counted, configured or served otherwise than it
// is asked for.
func (e environment) refuse() error {
	for _, v := range []struct{ name, serves, because string }{
		{"BACKEND_TYPE", "redis", "counters are in Redis, or in memory"},
		{"CONFIG_TYPE", "FILE", "the configuration is read from files"},
		{"REDIS_SOCKET_TYPE", "tcp", "Redis is reached by TCP; give REDIS_URL as host:port"},
		{"USE_CALENDAR_MONTH_RATE_LIMIT", "false", "a month is 30 days here; a rule file can count by calendar months"},
		{"GRPC_UDS", "", "gRPC is served by TCP; give GRPC_HOST and GRPC_PORT"},
	} {
		if value := e.or(v.name, v.serves); !strings.EqualFold(value, v.serves) {
			return usagef("%s: %q is not served (%s)", v.name, value, v.because)
		}
	}
	if strings.HasPrefix(e["REDIS_URL"], "/") {
		return usagef("REDIS_URL: %q is a socket of this machine, which is not served (give host:port)", e["REDIS_URL"])
	}
	return nil
}

// grpcTLS is the TLS of gRPC alone, if it is asked for.
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
		err = usagef("GRPC_CLIENT_TLS_SAN: needs GRPC_CLIENT_TLS_CACERT, which vouches for the name")
	}
	return files, err
}

// told are lines for the log: what comes of variables that are there and not
// followed.
func (e environment) told() (lines []string) {
	if apart, _ := e.truth("REDIS_PERSECOND"); apart {
		lines = append(lines, "REDIS_PERSECOND: limits of a second are counted in the same store as all others")
	}
	if e["LOG_LEVEL"] != "" {
		lines = append(lines, "LOG_LEVEL: is not followed, because lines have other levels here (give --log-level)")
	}
	if idle := e.idle(); len(idle) > 0 {
		lines = append(lines, "nothing is left to do for these variables: "+strings.Join(idle, " "))
	}
	return lines
}

// idle are the variables that are there and have nothing left to do.
func (e environment) idle() (names []string) {
	for _, name := range []string{
		"CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS", "CONFIG_GRPC_XDS_CLIENT_TLS_CERT", "CONFIG_GRPC_XDS_CLIENT_TLS_KEY", "CONFIG_GRPC_XDS_NODE_ID",
		"CONFIG_GRPC_XDS_NODE_METADATA", "CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL", "CONFIG_GRPC_XDS_SERVER_TLS_CACERT",
		"CONFIG_GRPC_XDS_SERVER_TLS_SAN", "CONFIG_GRPC_XDS_SERVER_URL", "CONFIG_GRPC_XDS_SERVER_USE_TLS",
		"DEBUG_HOST", "DEBUG_PORT", "DISABLE_STATS", "EXPIRATION_JITTER_MAX_SECONDS", "EXTRA_TAGS",
		"FORCE_START_WITHOUT_INITIAL_CONFIG", "HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED", "LOCAL_CACHE_SIZE_IN_BYTES",
		"MEMCACHE_HOST_PORT", "MEMCACHE_MAX_IDLE_CONNS", "MEMCACHE_SRV", "MEMCACHE_SRV_REFRESH", "MEMCACHE_TLS", "MEMCACHE_TLS_CACERT",
		"MEMCACHE_TLS_CLIENT_CERT", "MEMCACHE_TLS_CLIENT_KEY", "MEMCACHE_TLS_SKIP_HOSTNAME_VERIFICATION",
		"NEAR_LIMIT_RATIO", "PROMETHEUS_ADDR", "PROMETHEUS_MAPPER_YAML", "PROMETHEUS_PATH",
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
