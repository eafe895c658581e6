package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

func compat(t *testing.T, args []string, variables ...string) (*serveFlags, error) {
	t.Helper()
	f, set := new(serveFlags), pflag.NewFlagSet("serve", pflag.ContinueOnError)
	f.define(set)
	if err := set.Parse(append(args, "--envoy-compat")); err != nil {
		t.Fatal(err)
	}
	return f, f.layerEnvoy(set, variables)
}

func TestVariablesOfEnvoysService(t *testing.T) {
	f, err := compat(t, []string{"--key-prefix", "mine"},
		"PORT=9080", "GRPC_PORT=9081", "GRPC_HOST=127.0.0.1", "RUNTIME_ROOT=/data", "RUNTIME_SUBDIRECTORY=ratelimit", "REDIS_URL=r:6379",
		"REDIS_AUTH=p@ss", "CACHE_KEY_PREFIX=theirs", "LIMIT_RESPONSE_HEADERS_ENABLED=true", "LIMIT_RESET_HEADER=X-Reset", "SHADOW_MODE=true", "MERGE_DOMAIN_CONFIG=1",
		"LOCAL_CACHE_SIZE_IN_BYTES=9", "NEAR_LIMIT_RATIO=0.8", "BACKEND_TYPE=redis", "LOG_LEVEL=")
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Join([]string{f.http, f.grpc, f.envoyConfig, f.store, f.keyPrefix, f.envoyHeaderNames().Limit, f.envoyHeaderNames().Reset, strings.Join(f.envoy.ignored, "+")}, " ")
	want := ":9080 127.0.0.1:9081 /data/ratelimit/config redis://:p%40ss@r:6379 mine RateLimit-Limit X-Reset LOCAL_CACHE_SIZE_IN_BYTES+NEAR_LIMIT_RATIO"
	if got != want || !f.envoy.shadow || !f.envoy.merge {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestVariablesThatNameARedis(t *testing.T) {
	for want, variables := range map[string][]string{
		"memory":                        nil,
		"redis://h:1":                   {"REDIS_URL=h:1", "REDIS_SOCKET_TYPE=tcp"},
		"rediss://u:p@h:1?tls_ca=%2Fca": {"REDIS_URL=h:1", "REDIS_TLS=true", "REDIS_AUTH=u:p", "REDIS_TLS_CACERT=/ca"},
		"redis-cluster://a:1,b:2":       {"REDIS_URL=a:1,b:2", "REDIS_TYPE=cluster"},
		"redis-sentinel://a:1,b:2/main?sentinel_password=s": {"REDIS_URL=main,a:1,b:2", "REDIS_TYPE=SENTINEL", "REDIS_SENTINEL_AUTH=s"},
	} {
		f, err := compat(t, nil, variables...)
		if err != nil || f.store != want {
			t.Errorf("%v: %s, %v, want %s", variables, f.store, err, want)
		}
		if want == "memory" {
			continue
		}
		if _, err := storeOptions(strings.ReplaceAll(f.store, "?tls_ca=%2Fca", ""), ""); err != nil {
			t.Errorf("%s: %v", f.store, err)
		}
	}
}

func TestVariablesThatCannotBeFollowedAreRefused(t *testing.T) {
	for _, variable := range []string{
		"BACKEND_TYPE=memcache", "CONFIG_TYPE=GRPC_XDS_SOTW", "REDIS_SOCKET_TYPE=unix", "MERGE_DOMAIN_CONFIG=perhaps", "QUOTA_MODE=true",
		"STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT=true", "REDIS_PERSECOND=true", "GRPC_SERVER_USE_TLS=true", "SHADOW_MODE=perhaps",
	} {
		name, _, _ := strings.Cut(variable, "=")
		if _, err := compat(t, nil, variable); err == nil || !strings.HasPrefix(err.Error(), name+": ") {
			t.Errorf("%s: %v", variable, err)
		}
	}
	f, set := new(serveFlags), pflag.NewFlagSet("serve", pflag.ContinueOnError)
	f.define(set)
	if err := f.layerEnvoy(set, []string{"PORT=1", "BACKEND_TYPE=memcache"}); err != nil || f.http != ":8080" {
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
