package main

import (
	"strings"

	"github.com/stintdev/stint/cmd/stint/internal/server"
)

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
