package main

import (
	"errors"
	"log/slog"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/stintdev/stint/internal/server"
)

// envoySettings are what the environment variables of Envoy's rate limit
// service say that no flag does.
type envoySettings struct {
	shadow  bool
	merge   bool                 // several files may describe one domain
	headers *server.EnvoyHeaders // nil: the usual names
	ignored []string             // variables that have nothing left to do
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
		if s.value == "" || flag.Value.String() != flag.DefValue {
			continue
		}
		if err := set(flag, s.from, s.value); err != nil {
			return err
		}
	}
	f.envoy.ignored = env.ignored()
	f.envoy.headers = env.headers()
	var wrong error
	f.envoy.shadow, err = env.truth("SHADOW_MODE")
	f.envoy.merge, wrong = env.truth("MERGE_DOMAIN_CONFIG")
	return errors.Join(err, wrong)
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
		{"http", "PORT", e.address("HOST", "PORT")},
		{"grpc", "GRPC_PORT", e.address("GRPC_HOST", "GRPC_PORT")},
		{"envoy-config", "RUNTIME_ROOT", e.folder()},
		{"store", "REDIS_URL", store},
		{"key-prefix", "CACHE_KEY_PREFIX", e["CACHE_KEY_PREFIX"]},
		{"envoy-headers", "LIMIT_RESPONSE_HEADERS_ENABLED", strconv.FormatBool(headers)},
	}, err
}

func (e environment) address(host, port string) string {
	if e[port] == "" {
		return ""
	}
	return e[host] + ":" + e[port]
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

// refuse names what this version would do otherwise than it is asked.
func (e environment) refuse() error {
	for _, v := range []struct{ name, serves string }{
		{"BACKEND_TYPE", "redis"}, {"CONFIG_TYPE", "FILE"}, {"REDIS_SOCKET_TYPE", "tcp"},
		{"QUOTA_MODE", "false"}, {"STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT", "false"},
		{"REDIS_PERSECOND", "false"}, {"GRPC_SERVER_USE_TLS", "false"},
	} {
		if value := e.or(v.name, v.serves); !strings.EqualFold(value, v.serves) {
			return usagef("%s: %q is not served by this version (leave it out, or set it to %s)", v.name, value, v.serves)
		}
	}
	return nil
}

// ignored are the variables that are there and have nothing left to do.
func (e environment) ignored() (names []string) {
	idle := []string{
		"LOCAL_CACHE_SIZE_IN_BYTES", "NEAR_LIMIT_RATIO", "EXPIRATION_JITTER_MAX_SECONDS", "RUNTIME_WATCH_ROOT", "RUNTIME_IGNOREDOTFILES",
		"REDIS_POOL_SIZE", "REDIS_PIPELINE_WINDOW", "REDIS_PIPELINE_LIMIT", "REDIS_HEALTH_CHECK_ACTIVE_CONNECTION", "REDIS_TIMEOUT",
		"LOG_LEVEL", "LOG_FORMAT", "DEBUG_HOST", "DEBUG_PORT", "USE_STATSD", "STATSD_HOST", "STATSD_PORT", "USE_PROMETHEUS", "EXTRA_TAGS",
		"GRPC_MAX_CONNECTION_AGE", "GRPC_MAX_CONNECTION_AGE_GRACE", "RESPONSE_DYNAMIC_METADATA_ENABLED",
	}
	for _, name := range idle {
		if e[name] != "" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
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

// tell says in one line what was accepted and does nothing.
func (s *envoySettings) tell(log *slog.Logger) {
	if len(s.ignored) > 0 {
		log.Info("envoy-compat: nothing is left to do for these variables", "names", strings.Join(s.ignored, " "))
	}
}
