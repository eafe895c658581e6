package server

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	commonpb "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimitpb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/stintdev/stint"
	stintv1 "github.com/stintdev/stint/api/stint/v1"
	"github.com/stintdev/stint/remotestore"
)

const emergencyRules = `
defaults: {capacity: 50}
rules:
  - {id: orders, match: {path_prefix: /orders}, by: [api_key], limit: 100, window: 60}
  - {id: either, match: {path: /either}, combine: any, by: [api_key], limits: [{limit: 100, window: 60}, {limit: 200, window: 3600}]}
  - {id: tried, match: {path_prefix: /orders}, mode: shadow, by: [api_key], limit: 1, window: 60}
allow: ["sk_internal_*"]
deny: ["sk_revoked_*"]
`

// switchOn switches the emergency on by the admin API.
func (r *running) switchOn(limit, by string) answer {
	r.t.Helper()
	got := r.do(http.MethodPut, "admin", "/v1/emergency", fmt.Sprintf(`{"limit":%q,"by":%q,"for":"10m","reason":"a test"}`, limit, by), nil)
	if got.status != http.StatusOK {
		r.t.Fatal(got)
	}
	return got
}

func (r *running) switchOff() {
	r.t.Helper()
	if got := r.do(http.MethodDelete, "admin", "/v1/emergency", "", nil); got.status != http.StatusOK {
		r.t.Fatal(got)
	}
}

func TestAnEmergencyLimitsEveryRequest(t *testing.T) {
	t.Parallel()
	s := run(t, Config{Rules: rulesFile(t, emergencyRules), Gateway: "127.0.0.1:0", Upstreams: echo(t)})
	s.wantMetric("stint_emergency 0", true)
	on := s.switchOn("2/m", "ip").decoded(t)
	// The client is 127.0.0.1 for the gateway and forward auth, which count together.
	got := s.get("gateway", "/orders", "X-API-Key", "k1")
	policy := `"orders";q=50;w=60, "emergency";q=2;w=60`
	if got.status != http.StatusOK || got.header.Get("RateLimit-Policy") != policy || got.header.Get("RateLimit") != `"emergency";r=1;t=30` || got.header.Get("X-Stint-Emergency") != "" {
		t.Errorf("%d %v", got.status, got.header)
	}
	if got := s.get("http", "/v1/auth/elsewhere"); got.status != http.StatusOK || got.header.Get("X-RateLimit-Limit") != "2" {
		t.Errorf("a request that no rule matches: %d %v", got.status, got.header)
	}
	until := "until=" + on["until"].(string)[:19] + "Z"
	for surface, got := range map[string]answer{
		"gateway":      s.get("gateway", "/orders", "X-API-Key", "k2"),
		"alternatives": s.get("gateway", "/either", "X-API-Key", "k3"),
		"forward auth": s.get("http", "/v1/auth/orders?x"),
	} {
		if got.status != http.StatusTooManyRequests || got.header.Get("X-Stint-Emergency") != until || !strings.Contains(got.header.Get("RateLimit"), `"emergency";r=0`) ||
			got.header.Get("Retry-After") == "" || !strings.Contains(got.body, "Rate limit of 2 requests per 60 seconds exceeded") {
			t.Errorf("%s: %d %v %s, want %s", surface, got.status, got.header, got.body, until)
		}
	}
	for key, want := range map[string]int{"sk_internal_1": http.StatusOK, "sk_revoked_1": http.StatusForbidden} {
		if got := s.get("gateway", "/orders", "X-API-Key", key); got.status != want || got.header.Get("X-Stint-Emergency") != "" {
			t.Errorf("%s is on a list: %d", key, got.status)
		}
	}
	check := func(attributes string) map[string]any {
		return s.post("http", "/v1/check", `{"attributes":{`+attributes+`}}`).decoded(t)
	}
	if d := check(`"ip":"203.0.113.1","path":"/orders"`); d["allowed"] != true || d["rule"] != "emergency" {
		t.Errorf("another client: %v", d)
	}
	for i, want := range []bool{true, true, false} {
		if d := check(fmt.Sprintf(`"api_key":"k%d"`, i)); d["allowed"] != want {
			t.Errorf("request %d without an address: %v", i, d)
		}
	}
	s.wantMetric("stint_emergency 1", true)
	s.wantMetric(`stint_decisions_total{decision="deny",rule="emergency"} 4`, true)
	s.wantMetric(`stint_decisions_total{decision="allow",rule="emergency"} 5`, true)
	s.switchOff()
	if got := s.get("gateway", "/orders", "X-API-Key", "k1"); got.status != http.StatusOK || got.header.Get("RateLimit-Policy") != `"orders";q=50;w=60` {
		t.Errorf("off: %d %v", got.status, got.header)
	}
	s.wantMetric("stint_emergency 0", true)
	s.wantMetric("stint_emergency_end_timestamp_seconds 0", true)
	for _, line := range []string{`msg="emergency on" limit=2/m by=ip until=`, `who=local`, `reason="a test"`, `msg="emergency off" limit=2/m`} {
		s.logs.wait(t, line)
	}
}

func TestAnEmergencyJoinsTakesByTheirKey(t *testing.T) {
	t.Parallel()
	s := run(t, Config{Rules: rulesFile(t, emergencyRules), GRPC: "127.0.0.1:0", RESP: "127.0.0.1:0"})
	s.switchOn("2/m", "ip")
	// A caller that takes under an address does not use what the client of that address has.
	for i, want := range []string{"true 2 1 emergency", "true 2 0 emergency", "false 2 0 emergency"} {
		d := s.post("http", "/v1/take", `{"key":"203.0.113.1","limit":"50/m"}`).decoded(t)
		if got := fmt.Sprint(d["allowed"], " ", d["limit"], " ", d["remaining"], " ", d["rule"]); got != want || len(d["limits"].([]any)) != 2 {
			t.Errorf("take %d: %v, want %s", i, d, want)
		}
	}
	if d := s.post("http", "/v1/check", `{"attributes":{"ip":"203.0.113.1"}}`).decoded(t); d["remaining"] != 1.0 {
		t.Errorf("the client of the address: %v", d)
	}
	if d := s.post("http", "/v1/take", `{"key":"203.0.113.1","limits":["50/m","60/h"],"combine":"any"}`).decoded(t); d["allowed"] != false {
		t.Errorf("alternatives: %v", d)
	}
	if d := s.post("http", "/v1/refund", `{"key":"203.0.113.1","limit":"50/m","cost":1}`).decoded(t); d["allowed"] != true || len(d["limits"].([]any)) != 1 {
		t.Errorf("a refund: %v", d)
	}
	conn := dial(t, s.Addr("resp"))
	for i, want := range []string{"[*5 :0 :10 :1 :-1 :30]", "[*5 :0 :10 :0 :-1 :60]", "[*5 :1 :10 :0 :30 :60]"} {
		if got := fmt.Sprint(askRESP(t, conn, "CL.THROTTLE k 9 600 60", 6)); got != want {
			t.Errorf("RESP %d: %v, want %v", i, got, want)
		}
	}
	client := stintv1.NewLimiterServiceClient(dialGRPC(t, s))
	for i, want := range []bool{true, true, false} {
		r, err := client.Take(t.Context(), &stintv1.TakeRequest{Key: "g", Extra: 10, Limits: []*stintv1.Limit{{Limit: 50, WindowUs: time.Minute.Microseconds()}}})
		if err != nil || r.GetDecision().GetAllowed() != want || r.GetDecision().GetGranted() != 0 || len(r.GetLimits()) != 2 || r.GetLimits()[1].GetRule() != "emergency" {
			t.Errorf("gRPC %d: %v, %v", i, r, err)
		}
	}
	s.wantMetric(`stint_decisions_total{decision="deny",rule="emergency"} 4`, true)
	s.wantMetric(`stint_decisions_total{decision="allow",rule="emergency"} 7`, true)
}

// A program that has this server as its store sends groups of claims, and expects a decision
// for each of its own.
func TestAnEmergencyJoinsTheGroupsOfOtherPrograms(t *testing.T) {
	t.Parallel()
	s := run(t, Config{GRPC: "127.0.0.1:0"})
	remote, err := remotestore.New(remotestore.Options{Addr: s.Addr("grpc").String(), Timeout: patience})
	if err != nil {
		t.Fatal(err)
	}
	defer remote.Close()
	limit := stint.MustParseLimit("50/h")
	spec := limit.Spec()
	spec.Rule = "theirs"
	ruled, err := spec.Compile()
	if err != nil {
		t.Fatal(err)
	}
	s.switchOn("2/m", "ip")
	for _, l := range []stint.Limit{limit, ruled} {
		for i, want := range []string{"true 1 true", "true 0 true", "false 0 true"} {
			groups := []stint.Group{
				{Claims: []stint.Claim{{Key: "k", Limit: l, Cost: 1}}, Shadows: [][]stint.Claim{{{Key: "shadow", Limit: l, Cost: 1}}}},
				{Claims: []stint.Claim{{Key: fmt.Sprint("other", i), Limit: l, Cost: 1}}},
			}
			out := make([]stint.Decision, 3)
			if err := remote.TakeGroups(t.Context(), groups, out); err != nil {
				t.Fatal(err)
			}
			if got := fmt.Sprint(out[0].Allowed, " ", out[0].Remaining, " ", out[2].Allowed); got != want || out[1].Remaining != int64(49-min(i, 1)) && out[1].Remaining != int64(48-min(i, 1)) {
				t.Errorf("%v, call %d: %s, want %s; %+v", l, i, got, want, out)
			}
		}
	}
}

func TestAnEmergencyOutranksOpen(t *testing.T) {
	t.Parallel()
	s := guarded(t, Config{GRPC: "127.0.0.1:0"})
	s.switchOn("2/m", "ip")
	for path, status := range map[string]int{"/open": http.StatusOK, "/unmatched": http.StatusOK} {
		for i, want := range []bool{true, true, false, false} {
			got := s.post("http", "/v1/check", fmt.Sprintf(`{"attributes":{"api_key":"k%d","ip":"203.0.113.%d","path":%q}}`, i, len(path), path))
			if d := got.decoded(t); got.status != status || d["allowed"] != want || d["degraded"] != true {
				t.Errorf("%s, request %d: %s", path, i, got.body)
			}
		}
	}
	for i, want := range []bool{true, true, false} {
		if d := s.post("http", "/v1/take", `{"key":"k","limit":"100/m"}`).decoded(t); d["allowed"] != want || d["degraded"] != true {
			t.Errorf("take %d: %v", i, d)
		}
	}
	if got := s.post("http", "/v1/check", `{"attributes":{"ip":"203.0.113.99","path":"/closed"}}`); got.status != http.StatusServiceUnavailable {
		t.Errorf("a rule that fails closed stays closed: %s", got.body)
	}
	s.wantMetric(`stint_decisions_total{decision="error_local",rule="emergency"} 11`, true)
	// Only the two takes that were admitted have failed open.
	s.wantMetric(`stint_decisions_total{decision="error_open",rule="(take)"} 2`, true)
}

func TestAnEmergencyUnderEnvoy(t *testing.T) {
	t.Parallel()
	s, client := runEnvoy(t, Config{EnvoyHeaders: DefaultEnvoyHeaders()})
	s.switchOn("2/m", "ip")
	from := func(user, address string) *ratelimitpb.RateLimitRequest {
		q := ofUser(user, 1)
		q.Descriptors = append(q.Descriptors, &commonpb.RateLimitDescriptor{Entries: []*commonpb.RateLimitDescriptor_Entry{{Key: "remote_address", Value: address}}})
		return q
	}
	wantCode := func(name string, q *ratelimitpb.RateLimitRequest, want ratelimitpb.RateLimitResponse_Code) *ratelimitpb.RateLimitResponse {
		t.Helper()
		got, err := client.ShouldRateLimit(patient(t), q)
		if err != nil || got.GetOverallCode() != want || len(got.GetStatuses()) != len(q.GetDescriptors()) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
		return got
	}
	const ok, over = ratelimitpb.RateLimitResponse_OK, ratelimitpb.RateLimitResponse_OVER_LIMIT
	wantCode("first", from("a", "203.0.113.1"), ok)
	wantCode("second", from("b", "203.0.113.1"), ok)
	denied := wantCode("third", from("c", "203.0.113.1"), over)
	if l := denied.GetStatuses()[0].GetCurrentLimit(); l.GetName() != "emergency" || l.GetRequestsPerUnit() != 2 || l.GetUnit() != ratelimitpb.RateLimitResponse_RateLimit_MINUTE {
		t.Error(denied)
	}
	headers := map[string]string{}
	for _, h := range denied.GetResponseHeadersToAdd() {
		headers[h.GetKey()] = h.GetValue()
	}
	if !strings.HasPrefix(headers["X-Stint-Emergency"], "until=") || headers["RateLimit-Limit"] != "2" || headers["RateLimit-Reset"] != "30" {
		t.Error(headers)
	}
	wantCode("another client", from("a", "203.0.113.2"), ok)
	// The gateway and Envoy count one client together.
	if d := s.post("http", "/v1/check", `{"attributes":{"ip":"203.0.113.2"}}`).decoded(t); d["remaining"] != 0.0 {
		t.Error(d)
	}
	unknown := &ratelimitpb.RateLimitRequest{Domain: "unknown", Descriptors: ofUser("z", 1).GetDescriptors()}
	wantCode("no limit applies", unknown, ok)
	wantCode("the descriptor stands in", unknown, ok)
	wantCode("the descriptor stands in", unknown, over)
	s.switchOn("1/m", "header:X-Device")
	for _, device := range []string{"x", "y"} {
		q := ofUser("dora", 1)
		q.Descriptors[0].Entries = append(q.Descriptors[0].Entries, &commonpb.RateLimitDescriptor_Entry{Key: "header:X-Device", Value: device})
		wantCode("first of a device", q, ok)
		wantCode("second of a device", q, over)
	}
	s.switchOff()
	wantCode("off", unknown, ok)
}

func TestEnvoyObeysAnEmergencyWhileTheStoreFails(t *testing.T) {
	t.Parallel()
	config := Config{EnvoyConfig: t.TempDir(), GRPC: "127.0.0.1:0"}
	writeFile(t, config.EnvoyConfig+"/shop.yaml", envoyFile)
	s := guarded(t, config)
	client := ratelimitpb.NewRateLimitServiceClient(dialGRPC(t, s))
	s.switchOn("1/m", "host")
	if got, err := client.ShouldRateLimit(patient(t), ofUser("ann", 1)); err == nil {
		t.Errorf("the limits of the domain have no decision, which Envoy judges: %v", got)
	}
	if got, err := client.ShouldRateLimit(patient(t), ofUser("ann", 1)); err != nil || got.GetOverallCode() != ratelimitpb.RateLimitResponse_OVER_LIMIT {
		t.Errorf("%v, %v", got, err)
	}
}

func TestAnEmergencyOutlivesAChangeOfTheRules(t *testing.T) {
	t.Parallel()
	file := rulesFile(t, emergencyRules)
	s := run(t, Config{Rules: file})
	s.switchOn("1/m", "header:x-device")
	ask := func() map[string]any {
		return s.post("http", "/v1/check", `{"attributes":{"header:x-device":"d","path":"/new"}}`).decoded(t)
	}
	ask()
	writeFile(t, file, "rules: [{id: new, match: {path: /new}, limit: 5/m, missing: shared}]")
	s.logs.wait(t, "rules reloaded")
	d := ask()
	if limits := d["limits"].([]any); d["allowed"] != false || d["rule"] != "emergency" || len(limits) != 2 {
		t.Errorf("%v", d)
	}
	writeFile(t, file, "rules: [{id: emergency, limit: 5/m}]")
	s.logs.wait(t, "the id emergency is reserved")
	if got := s.get("admin", "/rules", "Accept", "text/yaml"); strings.Contains(got.body, "emergency") {
		t.Errorf("the emergency is no part of the rules: %s", got.body)
	}
	s.switchOff()
	if d := ask(); d["allowed"] != true || d["rule"] != "new" {
		t.Errorf("%v", d)
	}
}

func TestAnEmergencySurvivesARestartByTheStateFolder(t *testing.T) {
	t.Parallel()
	file, state := rulesFile(t, emergencyRules), t.TempDir()
	s := run(t, Config{Rules: file, StateDir: state})
	s.switchOn("1/m", "ip")
	s.stop()
	if err := s.end(); err != nil {
		t.Fatal(err)
	}
	again := run(t, Config{Rules: file, StateDir: state})
	again.wantMetric("stint_emergency 1", true)
	if got := again.get("admin", "/v1/emergency").decoded(t); got["on"] != true || got["reason"] != "a test" {
		t.Error(got)
	}
	if got := again.get("admin", "/rules/history").decoded(t); len(got["versions"].([]any)) != 1 {
		t.Error(got)
	}
}

// The state of the emergency is out of reach of every caller without the role.
func TestCallersCannotTouchAnEmergency(t *testing.T) {
	t.Parallel()
	s := run(t, Config{GRPC: "127.0.0.1:0", HTTPToken: "secret", AdminToken: "admin"})
	if got := s.do(http.MethodPut, "admin", "/v1/emergency", `{"limit":"1/s","by":"ip","for":"1m"}`, []string{"Authorization", "Bearer secret"}); got.status != http.StatusUnauthorized {
		t.Error(got)
	}
	if got := s.do(http.MethodDelete, "http", "/v1/emergency", "", []string{"Authorization", "Bearer secret"}); got.status != http.StatusNotFound {
		t.Error(got)
	}
	// A caller that could name the rule could refund what it has used.
	open := run(t, Config{GRPC: ":0"})
	limit := &stintv1.Limit{Rule: "emergency", Name: "key", Limit: 1000, WindowUs: time.Minute.Microseconds()}
	_, err := stintv1.NewLimiterServiceClient(dialGRPC(t, open)).GiveBack(patient(t), &stintv1.GiveBackRequest{Key: "k", Limits: []*stintv1.Limit{limit}})
	if status.Code(err) != codes.PermissionDenied {
		t.Error(err)
	}
}
