package server

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	authpb "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	ratelimitpb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/stintdev/stint"
	stintv1 "github.com/stintdev/stint/api/stint/v1"
	"github.com/stintdev/stint/rule"
)

// Requests are counted by surface and ending; a hole in the rules shows apart from takes.
func TestRequestsAreCountedBySurfaceAndEnding(t *testing.T) {
	s := run(t, Config{Rules: rulesFile(t, "rules:\n  - {id: orders, match: {path_prefix: /orders}, by: [api_key], limit: 1/h}\n")})
	for _, body := range []string{`{"attributes":{"api_key":"k","path":"/orders"}}`, `{"attributes":{"api_key":"k","path":"/orders"}}`, `{"attributes":{"api_key":"k","path":"/other"}}`, `{}`} {
		s.post("http", "/v1/check", body)
	}
	s.post("http", "/v1/take", `{"key":"k","limit":"1/h"}`)
	s.post("http", "/v1/take", `{"key":""}`)
	s.get("http", "/v1/auth/other", "X-Api-Key", "k")
	for _, want := range []string{
		`stint_requests_total{outcome="allow",surface="check"} 2`, `stint_requests_total{outcome="deny",surface="check"} 1`, `stint_requests_total{outcome="invalid",surface="check"} 1`,
		`stint_requests_total{outcome="allow",surface="take"} 1`, `stint_requests_total{outcome="invalid",surface="take"} 1`, `stint_requests_total{outcome="allow",surface="auth"} 1`,
		`stint_unmatched_total{surface="check"} 1`, `stint_unmatched_total{surface="auth"} 1`, `stint_unmatched_total{surface="gateway"} 0`,
		`stint_decisions_total{decision="allow",rule="(take)"} 1`, `stint_ready 1`,
	} {
		s.wantMetric(want, true)
	}
	s.wantText(`stint_unmatched_total{surface="take"}`, false)
	s.wantText(`stint_decisions_total{decision="allow",rule=""}`, false)
}

// Requests that no store decides are errors of their surface.
func TestRequestsWithoutADecisionAreErrors(t *testing.T) {
	s := run(t, Config{Store: failing{code: stint.CodeUnavailable}, Rules: rulesFile(t, "rules:\n  - {id: orders, by: [api_key], limit: 1/h}\n")})
	s.post("http", "/v1/check", `{"attributes":{"api_key":"k","path":"/orders"}}`)
	s.post("http", "/v1/take", `{"key":"k","limit":"1/h"}`)
	s.get("http", "/v1/auth/orders", "X-Api-Key", "k")
	for _, surface := range []string{"check", "take", "auth"} {
		s.wantMetric(`stint_requests_total{outcome="error",surface="`+surface+`"} 1`, true)
	}
}

// A request of Envoy's rate limit service counts by how it ended: a limit with a failure policy
// is degraded, and one without makes the response an error.
func TestDegradedRequestsOfEnvoyAreCounted(t *testing.T) {
	config := Config{EnvoyConfig: t.TempDir()}
	writeFile(t, config.EnvoyConfig+"/shop.yaml", `domain: shop
descriptors:
  - {key: open, rate_limit: {unit: minute, requests_per_unit: 3, on_store_failure: open}}
  - {key: closed, rate_limit: {unit: minute, requests_per_unit: 3, on_store_failure: closed}}
  - {key: local, rate_limit: {unit: minute, requests_per_unit: 1, on_store_failure: local}}
  - {key: seen, shadow_mode: true, rate_limit: {unit: minute, requests_per_unit: 3, on_store_failure: open}}
  - {key: envoys, rate_limit: {unit: minute, requests_per_unit: 3}}
`)
	s := guarded(t, config)
	for _, key := range []string{"open", "open", "closed", "local", "local", "seen", "other", "envoys"} {
		s.post("http", "/json", `{"domain":"shop","descriptors":[{"entries":[{"key":"`+key+`","value":"v"}]}]}`)
	}
	for outcome, n := range map[string]string{"allow": "2", "deny": "0", "degraded_allow": "3", "degraded_deny": "2", "error": "1", "invalid": "0"} {
		s.wantMetric(`stint_requests_total{outcome="`+outcome+`",surface="envoy"} `+n, true)
	}
}

// A limit counts what it denied, and what it allowed with little left. The series of
// overrides are one, and those of a limit that is gone end.
func TestLimitsAreCounted(t *testing.T) {
	const rules = `
rules:
  - id: orders
    by: [api_key]
    limits: [{name: hour, limit: 5, window: 1h}, {name: day, limit: 1000, window: 24h}]
    override: {vip: {limits: [{name: hour, limit: 1, window: 1h}]}}
  - {id: seen, mode: shadow, by: [api_key], limit: 3/h}
`
	file := rulesFile(t, rules)
	s := run(t, Config{Rules: file, NearLimit: 0.2})
	check := func(key string) { s.post("http", "/v1/check", `{"attributes":{"api_key":"`+key+`","path":"/"}}`) }
	for range 7 { // the fifth leaves nothing; two are denied
		check("k")
	}
	check("vip")
	check("vip")
	set, err := rule.Parse(rule.File{Name: "rules.yaml", Data: []byte(rules)})
	if err != nil {
		t.Fatal(err)
	}
	const hour, day = "hour", "day"
	of := func(limit, rule string) string { return `{limit="` + limit + `",rule="` + rule + `"} ` }
	for _, want := range []string{
		"stint_limit_denials_total" + of(hour, "orders") + "2", "stint_limit_near_total" + of(hour, "orders") + "1",
		"stint_limit_denials_total" + of(day, "orders") + "0", "stint_limit_near_total" + of(day, "orders") + "0",
		"stint_limit_denials_total" + of("(override)", "orders") + "1", "stint_limit_near_total" + of("(override)", "orders") + "1",
		"stint_limit_denials_total" + of(set.Rule("seen").Effective(set)[0].Limits[0].Name(), "seen"),
		`stint_limit_capacity{limit="` + hour + `",rule="orders",tier=""} 5`, `stint_limit_window_seconds{limit="` + day + `",rule="orders",tier=""} 86400`,
		`mode="shadow",on_store_failure="open",rule="seen",tier=""} 1`,
	} {
		s.wantText(want, true)
	}
	writeFile(t, file, strings.Replace(rules, "name: day", "name: week", 1))
	s.Reload()
	s.logs.wait(t, "rules reloaded")
	s.wantText("stint_limit_denials_total"+of(hour, "orders")+"2", true)
	s.wantText(`limit="day"`, false)
}

// A client that asks for OpenMetrics gets the trace ids of sampled requests, and no other
// text of theirs.
func TestExemplarsAreTheTraceIDsOfSampledRequests(t *testing.T) {
	const sampled, other = "0af7651916cd43dd8448eb211c80319c", "1af7651916cd43dd8448eb211c80319c"
	for name, c := range tracedCalls() {
		t.Run(name, func(t *testing.T) {
			s, _ := runEnvoy(t, withGateway(t, Config{}))
			for _, parent := range []string{"00-" + sampled + "-b7ad6b7169203331-01", "00-" + other + "-b7ad6b7169203331-00", `sk_live_planted`} {
				c.call(t, s, "k", parent)
			}
			got := s.get("admin", "/metrics", "Accept", "application/openmetrics-text; version=1.0.0")
			if !strings.HasPrefix(got.header.Get("Content-Type"), "application/openmetrics-text") || !strings.HasSuffix(got.body, "# EOF\n") {
				t.Fatalf("%s: %.200s", got.header.Get("Content-Type"), got.body)
			}
			found := false
			for line := range strings.Lines(got.body) {
				found = found || strings.HasPrefix(line, `stint_check_duration_seconds_bucket{surface="`+c.surface+`"`) && strings.Contains(line, `# {trace_id="`+sampled+`"}`)
			}
			if !found {
				t.Error("no exemplar")
			}
			if strings.Contains(got.body, other) || strings.Contains(got.body, "planted") {
				t.Error("it shows a trace that is not sampled, or a text that is no trace id")
			}
			if plain := s.get("admin", "/metrics"); strings.Contains(plain.body, sampled) {
				t.Error("an exemplar in the text format")
			}
		})
	}
}

// withGateway returns the configuration with a gateway before an upstream that answers 404.
func withGateway(t *testing.T, c Config) Config {
	t.Helper()
	upstream := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(upstream.Close)
	to, err := url.Parse(upstream.URL)
	if err != nil {
		t.Fatal(err)
	}
	c.Gateway, c.Upstreams = "127.0.0.1:0", []*url.URL{to}
	return c
}

// tracedCall sends a request on a key with a trace context, to a surface as the metrics name it.
type tracedCall struct {
	surface string
	call    func(t *testing.T, s *running, key, parent string)
}

// tracedCalls are a call of each kind of request that may have a trace context.
func tracedCalls() map[string]tracedCall {
	posted := func(path, body string) func(*testing.T, *running, string, string) {
		return func(_ *testing.T, s *running, key, parent string) {
			s.do(http.MethodPost, "http", path, strings.ReplaceAll(body, "KEY", key), []string{"Traceparent", parent})
		}
	}
	got := func(listener, path string) func(*testing.T, *running, string, string) {
		return func(_ *testing.T, s *running, key, parent string) {
			s.get(listener, path, "X-Api-Key", key, "Traceparent", parent)
		}
	}
	calls := map[string]tracedCall{
		"check":   {"check", posted("/v1/check", `{"attributes":{"api_key":"KEY"}}`)},
		"take":    {"take", posted("/v1/take", `{"key":"KEY","limit":"9/h"}`)},
		"batch":   {"check", posted("/v1/batch", `{"items":[{"attributes":{"api_key":"KEY"}}]}`)},
		"rlsJSON": {"envoy", posted("/json", `{"domain":"shop","descriptors":[{"entries":[{"key":"user","value":"KEY"}]}]}`)},
		"auth":    {"auth", got("http", "/v1/auth/x")},
		"gateway": {"gateway", got("gateway", "/x")},
	}
	for name, call := range nativeCalls() {
		calls[name] = tracedCall{"grpc", overGRPC(call)}
	}
	calls["rls"] = tracedCall{"envoy", overGRPC(func(ctx context.Context, conn *grpc.ClientConn, key string) error {
		_, err := ratelimitpb.NewRateLimitServiceClient(conn).ShouldRateLimit(ctx, ofUser(key, 1))
		return err
	})}
	calls["extAuth"] = tracedCall{"auth", func(t *testing.T, s *running, key, parent string) {
		t.Helper()
		r := described("192.0.2.1", "/x", map[string]string{"x-api-key": key, "traceparent": parent})
		if _, err := authpb.NewAuthorizationClient(dialGRPC(t, s)).Check(patient(t), r); err != nil {
			t.Fatal(err)
		}
	}}
	return calls
}

func overGRPC(call func(context.Context, *grpc.ClientConn, string) error) func(*testing.T, *running, string, string) {
	return func(t *testing.T, s *running, key, parent string) {
		t.Helper()
		if err := call(metadata.AppendToOutgoingContext(patient(t), "traceparent", parent), dialGRPC(t, s), key); err != nil {
			t.Fatal(err)
		}
	}
}

// nativeCalls are the calls of the native protocol that decide.
func nativeCalls() map[string]func(context.Context, *grpc.ClientConn, string) error {
	check := func(key string) *stintv1.CheckRequest {
		return &stintv1.CheckRequest{Attributes: map[string]string{"api_key": key}}
	}
	limits := []*stintv1.Limit{{Limit: 9, WindowUs: 1_000_000}}
	streamed := func(ctx context.Context, conn *grpc.ClientConn, message *stintv1.StreamRequest) error {
		stream, err := stintv1.NewLimiterServiceClient(conn).Stream(ctx)
		if err != nil {
			return err
		}
		if err := stream.Send(message); err != nil {
			return err
		}
		_, err = stream.Recv()
		return err
	}
	return map[string]func(context.Context, *grpc.ClientConn, string) error{
		"Check": func(ctx context.Context, conn *grpc.ClientConn, key string) error {
			_, err := stintv1.NewLimiterServiceClient(conn).Check(ctx, check(key))
			return err
		},
		"CheckB": func(ctx context.Context, conn *grpc.ClientConn, key string) error {
			_, err := stintv1.NewLimiterServiceClient(conn).CheckBatch(ctx, &stintv1.CheckBatchRequest{Names: []string{"api_key"}, Values: []string{key}})
			return err
		},
		"Take": func(ctx context.Context, conn *grpc.ClientConn, key string) error {
			_, err := stintv1.NewLimiterServiceClient(conn).Take(ctx, &stintv1.TakeRequest{Key: key, Limits: limits})
			return err
		},
		"TakeB": func(ctx context.Context, conn *grpc.ClientConn, key string) error {
			_, err := stintv1.NewLimiterServiceClient(conn).TakeBatch(ctx, &stintv1.TakeBatchRequest{Keys: []string{key}, Limits: limits})
			return err
		},
		"StreamC": func(ctx context.Context, conn *grpc.ClientConn, key string) error {
			return streamed(ctx, conn, &stintv1.StreamRequest{Request: &stintv1.StreamRequest_Check{Check: check(key)}})
		},
		"StreamT": func(ctx context.Context, conn *grpc.ClientConn, key string) error {
			return streamed(ctx, conn, &stintv1.StreamRequest{Request: &stintv1.StreamRequest_Take{Take: &stintv1.TakeRequest{Key: key, Limits: limits}}})
		},
	}
}

// Native buckets are in the protobuf format alone, and only with the setting.
func TestNativeHistogramsAreASetting(t *testing.T) {
	size := func(native bool) int {
		s := run(t, Config{NativeHistograms: native})
		s.post("http", "/v1/take", `{"key":"k","limit":"9/h"}`)
		s.wantMetric(`stint_check_duration_seconds_bucket{surface="take",le="1"} 1`, true)
		got := s.get("admin", "/metrics", "Accept", "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited")
		if got.status != http.StatusOK || !strings.HasPrefix(got.header.Get("Content-Type"), "application/vnd.google.protobuf") {
			t.Fatalf("%d %v", got.status, got.header)
		}
		from := strings.Index(got.body, "stint_check_duration_seconds")
		to := strings.Index(got.body, "stint_decisions_total")
		return to - from
	}
	if with, without := size(true), size(false); with <= without {
		t.Errorf("%d bytes with native buckets, %d without", with, without)
	}
}

// Penalties that last are shown, and the time at which the rules were last read.
func TestActivePenaltiesAndRulesAreShown(t *testing.T) {
	file := rulesFile(t, "rules:\n  - {id: api, by: [api_key], limit: 1/h, penalty: {after: 1, window: 10m, cool_down: 1h}}\n")
	s := run(t, Config{Rules: file})
	for range 3 {
		s.post("http", "/v1/check", `{"attributes":{"api_key":"k","path":"/"}}`)
	}
	s.wantMetric(`stint_penalties_active{penalty="cool_down",rule="api"} 1`, true)
	s.wantText("stint_rules_last_success_timestamp_seconds 1.", true)
	writeFile(t, file, "rules: []\n")
	s.Reload()
	s.logs.wait(t, "rules reloaded")
	s.wantText("stint_penalties_active{", false)
}

// The answers and the latency of upstreams are counted by group.
func TestAnswersOfUpstreamsAreCounted(t *testing.T) {
	teapot := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }))
	t.Cleanup(teapot.Close)
	upstream, err := url.Parse(teapot.URL)
	if err != nil {
		t.Fatal(err)
	}
	s := run(t, Config{Gateway: "127.0.0.1:0", Upstreams: []*url.URL{upstream}, Rules: rulesFile(t, "rules: []\n")})
	s.get("gateway", "/")
	for _, want := range []string{
		`stint_gateway_upstream_responses_total{status="4xx",upstream="default"} 1`, `stint_gateway_upstream_responses_total{status="5xx",upstream="default"} 0`,
		`stint_gateway_upstream_duration_seconds_count{upstream="default"} 1`,
		`stint_unmatched_total{surface="gateway"} 1`,
	} {
		s.wantMetric(want, true)
	}
}

// Each listener shows when the certificate that it presents expires.
func TestCertificatesShowWhenTheyExpire(t *testing.T) {
	a := newAuthority(t, "authority")
	files := a.files()
	a.issue(2, files)
	c, err := loadCertificates(files)
	if err != nil {
		t.Fatal(err)
	}
	if left := time.Until(c.expires()); left > time.Hour || left < 50*time.Minute {
		t.Errorf("it expires in %v", left)
	}
}

// wantText is wantMetric for a part of a line.
func (r *running) wantText(text string, want bool) {
	r.t.Helper()
	if body := r.get("admin", "/metrics").body; strings.Contains(body, text) != want {
		r.t.Errorf("%q is there: %v, want %v\n%s", text, !want, want, onlyOurs(body))
	}
}
