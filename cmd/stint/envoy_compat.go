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
