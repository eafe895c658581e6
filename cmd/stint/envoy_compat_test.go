package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/stintdev/stint/cmd/stint/internal/server"
)

func compat(t *testing.T, args []string, variables ...string) (*serveFlags, error) {
	t.Helper()
	f, set := new(serveFlags), pflag.NewFlagSet("serve", pflag.ContinueOnError)
	f.define(set)
	if err := set.Parse(append(args, "--envoy-compat")); err != nil {
		t.Fatal(err)
	}
	return f, f.applyEnvoy(set, variables)
}

func TestVariablesOfEnvoysService(t *testing.T) {
	f, err := compat(t, []string{"--key-prefix", "mine"},
		"PORT=9080", "GRPC_PORT=9081", "GRPC_HOST=127.0.0.1", "RUNTIME_ROOT=/data", "RUNTIME_SUBDIRECTORY=ratelimit", "REDIS_URL=r:6379",
		"REDIS_AUTH=p@ss", "CACHE_KEY_PREFIX=theirs", "LIMIT_RESPONSE_HEADERS_ENABLED=true", "LIMIT_RESET_HEADER=X-Reset", "SHADOW_MODE=true", "MERGE_DOMAIN_CONFIG=1",
		"LOCAL_CACHE_SIZE_IN_BYTES=9", "NEAR_LIMIT_RATIO=0.8", "BACKEND_TYPE=redis", "LOG_LEVEL=")
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Join([]string{f.http, f.grpc, f.envoyConfig, f.store, f.keyPrefix, f.envoyHeaderNames().Limit, f.envoyHeaderNames().Reset, strings.Join(f.envoy.notes, "+")}, " ")
	want := ":9080 127.0.0.1:9081 /data/ratelimit/config redis://:p%40ss@r:6379 mine RateLimit-Limit X-Reset these variables have no effect: LOCAL_CACHE_SIZE_IN_BYTES"
	if got != want || !f.envoy.shadow || !f.envoy.merge {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestVariablesThatNameARedis(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "auth")
	writeFile(t, secret, "f?f\n")
	for want, variables := range map[string][]string{
		"memory":                                            nil,
		"redis://h:1":                                       {"REDIS_URL=h:1", "REDIS_SOCKET_TYPE=tcp"},
		"redis+unix:///run/redis.sock":                      {"REDIS_URL=/run/redis.sock", "REDIS_SOCKET_TYPE=unix"},
		"redis+unix://u:p%40@/run/a%20b.sock":               {"REDIS_URL=/run/a b.sock", "REDIS_AUTH=u:p@"},
		"rediss://u:p@h:1?tls_ca=%2Fca":                     {"REDIS_URL=h:1", "REDIS_TLS=true", "REDIS_AUTH=u:p", "REDIS_TLS_CACERT=/ca"},
		"redis-cluster://a:1,b:2":                           {"REDIS_URL=a:1,b:2", "REDIS_TYPE=cluster"},
		"rediss://:p@h:1/2":                                 {"REDIS_URL=rediss://:p@h:1/2", "REDIS_AUTH=other"},
		"redis://:f%3Ff@h:1":                                {"REDIS_URL=h:1", "REDIS_AUTH_FILE=" + secret},
		"redis-cluster://u:p@a:1,b:2":                       {"REDIS_URL=redis://a:1,redis://u:p@b:2", "REDIS_TYPE=CLUSTER"},
		"redis-sentinel://:p@a:1,b:2/main":                  {"REDIS_URL=main,redis://a:1,b:2", "REDIS_TYPE=SENTINEL", "REDIS_AUTH=p"},
		"redis-sentinel://a:1,b:2/main?sentinel_password=s": {"REDIS_URL=main,a:1,b:2", "REDIS_TYPE=SENTINEL", "REDIS_SENTINEL_AUTH=s"},
	} {
		f, err := compat(t, nil, variables...)
		if err != nil || f.store != want {
			t.Errorf("%v: %s, %v, want %s", variables, f.store, err, want)
		}
		if want == "memory" {
			continue
		}
		if _, err := storeOptions(strings.ReplaceAll(f.store, "?tls_ca=%2Fca", ""), nil); err != nil {
			t.Errorf("%s: %v", f.store, err)
		}
	}
}

func TestVariablesThatCannotBeFollowedAreRefused(t *testing.T) {
	for _, variable := range []string{
		"BACKEND_TYPE=memcache", "CONFIG_TYPE=GRPC_XDS_SOTW", "REDIS_SOCKET_TYPE=unix", "MERGE_DOMAIN_CONFIG=perhaps", "QUOTA_MODE=perhaps",
		"STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT=perhaps", "GRPC_SERVER_USE_TLS=true", "SHADOW_MODE=perhaps", "USE_CALENDAR_MONTH_RATE_LIMIT=true",
		"GRPC_UDS=/run/ratelimit.sock", "REDIS_SOCKET_TYPE=udp", "REDIS_URL=http://h:1", "GRPC_MAX_CONNECTION_AGE=old", "GRPC_MAX_CONNECTION_AGE_GRACE=-1s",
		"REDIS_AUTH_FILE=/nowhere",
	} {
		name, _, _ := strings.Cut(variable, "=")
		if _, err := compat(t, nil, "REDIS_URL=h:1", variable); err == nil || !strings.HasPrefix(err.Error(), name+": ") {
			t.Errorf("%s: %v", variable, err)
		}
	}
	for _, variable := range []string{"REDIS_SOCKET_TYPE=tcp", "REDIS_TLS=true", "REDIS_TYPE=CLUSTER"} {
		if _, err := compat(t, nil, "REDIS_URL=/run/redis.sock", variable); err == nil || !strings.HasPrefix(err.Error(), "REDIS_URL: is the path of a Unix socket, ") {
			t.Errorf("%s: %v", variable, err)
		}
	}
	f, set := new(serveFlags), pflag.NewFlagSet("serve", pflag.ContinueOnError)
	f.define(set)
	if err := f.applyEnvoy(set, []string{"PORT=1", "BACKEND_TYPE=memcache"}); err != nil || f.http != ":8080" {
		t.Errorf("without --envoy-compat: %s, %v", f.http, err)
	}
}

func TestServeAsADropIn(t *testing.T) {
	root := t.TempDir()
	writeFile(t, filepath.Join(root, "config.yaml"), "domain: d\ndescriptors: [{key: k, rate_limit: {unit: fortnight}}]\n")
	got := command(t, []string{"RUNTIME_ROOT=" + filepath.Dir(root), "RUNTIME_APPDIRECTORY=" + filepath.Base(root)}, "serve", "--envoy-compat")
	if got.status != exitUsage || !strings.Contains(got.errors, "config.yaml:2:43: invalid rate limit unit 'fortnight'") {
		t.Errorf("%d %s", got.status, got.errors)
	}
}

func TestVariablesThatNoFlagSays(t *testing.T) {
	f, err := compat(t, []string{"--log-format=text"}, "HOST=::1", "GRPC_HOST=127.0.0.1", "LOG_FORMAT=json", "GRPC_MAX_CONNECTION_AGE=30m", "GRPC_MAX_CONNECTION_AGE_GRACE=1m",
		"QUOTA_MODE=1", "RESPONSE_DYNAMIC_METADATA=true", "STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT=t", "GRPC_SERVER_USE_TLS=true", "GRPC_SERVER_TLS_CERT=c.pem",
		"GRPC_SERVER_TLS_KEY=k.pem", "GRPC_CLIENT_TLS_CACERT=ca.pem", "GRPC_CLIENT_TLS_SAN=envoy", "REDIS_PERSECOND=true", "REDIS_PERSECOND_URL=p:1", "LOG_LEVEL=warn", "RUNTIME_ROOT=/data")
	if err != nil {
		t.Fatal(err)
	}
	c, err := f.config()
	if err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprint(c.HTTP, c.GRPC, f.logFormat, c.GRPCMaxAge, c.GRPCMaxAgeGrace, c.EnvoyQuota && c.EnvoyMetadata && c.EnvoyStop && !c.EnvoyShadow, c.GRPCTLS, c.TLS, f.envoy.notes)
	want := "[::1]:8080127.0.0.1:8081text30m0s 1m0s true {c.pem k.pem ca.pem envoy} {   } " +
		"[REDIS_PERSECOND: limits per second are counted in the same store as all others LOG_LEVEL: has no effect, because Stint logs at other levels (give --log-level) these variables have no effect: REDIS_PERSECOND_URL]"
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if f, _ = compat(t, []string{"--tls-cert=mine", "--tls-key=mine"}, "GRPC_SERVER_USE_TLS=true", "GRPC_SERVER_TLS_CERT=c", "GRPC_SERVER_TLS_KEY=k", "RUNTIME_ROOT=/data"); f != nil {
		if c, err := f.config(); err != nil || c.GRPCTLS != (server.TLSFiles{}) || c.TLS.Cert != "mine" {
			t.Errorf("a flag does not win: %v %v", c.GRPCTLS, err)
		}
	}
	if _, err := compat(t, nil, "GRPC_SERVER_USE_TLS=true", "GRPC_SERVER_TLS_CERT=c", "GRPC_SERVER_TLS_KEY=k", "GRPC_CLIENT_TLS_SAN=envoy"); err == nil || !strings.Contains(err.Error(), "GRPC_CLIENT_TLS_CACERT") {
		t.Errorf("a name without an authority: %v", err)
	}
}

func TestARedisUnderAnyNameIsTrustedOnlyIfItIsSigned(t *testing.T) {
	redis := httptest.NewTLSServer(http.NotFoundHandler())
	redis.Config.ErrorLog = log.New(io.Discard, "", 0)
	defer redis.Close()
	dial := func(roots *x509.CertPool, variables ...string) error {
		t.Helper()
		f, err := compat(t, nil, append(variables, "REDIS_URL=h:1", "REDIS_TLS=true")...)
		if err != nil {
			t.Fatal(err)
		}
		o, err := storeOptions(f.store, nil)
		if err != nil {
			t.Fatal(err)
		}
		o.TLS.RootCAs, o.TLS.ServerName = roots, "elsewhere.test"
		f.envoy.trustAnyName(&o)
		conn, err := tls.Dial("tcp", redis.Listener.Addr().String(), o.TLS)
		if err == nil {
			conn.Close()
		}
		return err
	}
	signed := x509.NewCertPool()
	signed.AddCert(redis.Certificate())
	if err := dial(signed, "REDIS_TLS_SKIP_HOSTNAME_VERIFICATION=true"); err != nil {
		t.Error(err)
	}
	if err := dial(x509.NewCertPool(), "REDIS_TLS_SKIP_HOSTNAME_VERIFICATION=true"); err == nil {
		t.Error("nobody has signed it")
	}
	if err := dial(signed); err == nil {
		t.Error("it is for another host")
	}
}
