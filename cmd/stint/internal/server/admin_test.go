package server

import (
	"net/http"
	"strings"
	"testing"
)

// wantMetric checks whether /metrics has the line.
func (r *running) wantMetric(line string, want bool) {
	r.t.Helper()
	got := r.get("admin", "/metrics")
	if got.status != http.StatusOK {
		r.t.Fatalf("/metrics: status %d", got.status)
	}
	if strings.Contains(got.body, "\n"+line+"\n") != want {
		r.t.Errorf("line %q is there: %v, want %v\n%s", line, !want, want, onlyOurs(got.body))
	}
}

func onlyOurs(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "stint_") && !strings.Contains(line, "_bucket") {
			b.WriteString(line)
		}
	}
	return b.String()
}

func TestMetricsCountWhatWasDecided(t *testing.T) {
	s := run(t, Config{Rules: rulesFile(t, `
rules:
  - {id: few, match: {path: /few}, by: [api_key], limit: 1, window: 60}
  - {id: all, match: {path_prefix: /}, by: [api_key], limit: 100, window: 60}
  - {id: looks, match: {path: /few}, by: [api_key], limit: 1, window: 60, mode: shadow}
whitelist: ["friend"]
blacklist: ["foe"]
`)})
	check := func(key, path string) {
		s.post("http", "/v1/check", `{"attributes":{"api_key":"`+key+`","path":"`+path+`"}}`)
	}
	check("k", "/few")
	check("k", "/few")
	check("k", "/other")
	check("friend", "/few")
	check("foe", "/few")
	s.post("http", "/v1/take", `{"key":"k","limit":"1/m"}`)
	s.post("http", "/v1/take", `{"key":"k","limit":"1/m"}`)
	for _, line := range []string{
		`stint_decisions_total{decision="allow",rule="few"} 1`,
		`stint_decisions_total{decision="deny",rule="few"} 1`,
		`stint_decisions_total{decision="allow",rule="all"} 2`, // without the rule that denied only a few
		`stint_decisions_total{decision="deny",rule="all"} 0`,
		`stint_decisions_total{decision="whitelist",rule=""} 1`,
		`stint_decisions_total{decision="blacklist",rule=""} 1`,
		`stint_decisions_total{decision="allow",rule="(take)"} 1`,
		`stint_decisions_total{decision="deny",rule="(take)"} 1`,
		`stint_check_duration_seconds_count{surface="check"} 5`,
		`stint_check_duration_seconds_count{surface="take"} 2`,
		`stint_check_duration_seconds_count{surface="gateway"} 0`,
		`stint_store_duration_seconds_count{shard=""} 5`,
		`stint_store_up 1`,
		`stint_keys 3`,
		`stint_caller_keys 1`,
		`stint_caller_limits 1`,
		`stint_caller_evictions_total 0`,
		`stint_caller_refused_total 0`,
		`stint_evictions_total 0`,
		`stint_rules_version 1`,
		`stint_rules_reloads_total{result="ok"} 0`,
	} {
		s.wantMetric(line, true)
	}
}

func TestShadowDenialsAreCounted(t *testing.T) {
	s := run(t, Config{Rules: rulesFile(t, "rules:\n  - {id: looks, by: [api_key], limit: 1, window: 60, mode: shadow}\n")})
	for range 3 {
		s.post("http", "/v1/check", `{"attributes":{"api_key":"k"}}`)
	}
	s.wantMetric(`stint_decisions_total{decision="shadow_deny",rule="looks"} 2`, true)
	s.wantMetric(`stint_decisions_total{decision="allow",rule="looks"} 1`, true)
}

// TestShadowRulesCountOnlyWhatTheyCharge: a request that an enforced rule denied does not count
// under a shadow rule. The share that the shadow rule would deny is therefore right.
func TestShadowRulesCountOnlyWhatTheyCharge(t *testing.T) {
	s := run(t, Config{Rules: rulesFile(t, "rules:\n  - {id: on, by: [api_key], limit: 2, window: 60}\n  - {id: looks, by: [api_key], limit: 9, window: 60, mode: shadow}\n")})
	for range 5 {
		s.post("http", "/v1/check", `{"attributes":{"api_key":"k"}}`)
	}
	s.wantMetric(`stint_decisions_total{decision="allow",rule="looks"} 2`, true)
	s.wantMetric(`stint_decisions_total{decision="deny",rule="looks"} 0`, true)
	s.wantMetric(`stint_decisions_total{decision="deny",rule="on"} 3`, true)
}

func TestAlternativesDenyOnlyTogether(t *testing.T) {
	s := run(t, Config{Rules: rulesFile(t, "rules:\n  - {id: looks, by: [api_key], mode: shadow, combine: any, limits: [{limit: 1, window: 60}, {limit: 2, window: 1h}]}\n")})
	for range 3 {
		s.post("http", "/v1/check", `{"attributes":{"api_key":"k"}}`)
	}
	s.wantMetric(`stint_decisions_total{decision="shadow_deny",rule="looks"} 1`, true)
}

func TestNoMetricRepeatsWhatCallersChoose(t *testing.T) {
	s := run(t, Config{})
	s.post("http", "/v1/take", `{"key":"callers-key","limit":{"name":"callers-name","limit":1,"window":"1m"}}`)
	s.post("http", "/v1/check", `{"attributes":{"api_key":"callers-key","callers-attribute":"x"}}`)
	s.get("http", "/callers-path")
	if body := s.get("admin", "/metrics").body; strings.Contains(body, "callers-") {
		t.Error(onlyOurs(body))
	}
	if strings.Contains(s.logs.String(), "callers-key") {
		t.Error(s.logs.String())
	}
}

func TestResetForgetsAKey(t *testing.T) {
	s := run(t, Config{})
	const body = `{"key":"k","limit":"1/h"}`
	s.post("http", "/v1/take", body)
	if got := s.post("admin", "/v1/reset", body); got.status != http.StatusOK {
		t.Fatalf("status %d: %s", got.status, got.body)
	}
	if got := s.post("http", "/v1/take", body).decoded(t); got["allowed"] != true {
		t.Errorf("after a reset: %v", got)
	}
	if got := s.post("http", "/v1/reset", body); got.status != http.StatusNotFound {
		t.Errorf("callers can reset: status %d", got.status)
	}
}

func TestBadResetsSayWhatIsWrong(t *testing.T) {
	s := run(t, Config{})
	for body, want := range map[string]string{
		`{"key":"k"}`:                               "limit: is missing",
		`{"limit":"1/h"}`:                           "key: is empty",
		`{"key":"k","limit":"1/h","cost":1}`:        `"cost": is not a known field`,
		`{"key":"k","limit":"1/h","limits":[]}`:     "did you mean limit?",
		`{"key":"k","limit":{"limit":"a lot"}}`:     "limit: ",
		`{"key":"` + "\\u007f" + `","limit":"1/h"}`: "control character",
	} {
		got := s.post("admin", "/v1/reset", body)
		if got.status != http.StatusBadRequest || !strings.Contains(got.errorMessage(), want) {
			t.Errorf("%s: status %d, %s, want 400 with %q", body, got.status, got.body, want)
		}
	}
}

func TestProfilesAreServedWhereAsked(t *testing.T) {
	if got := run(t, Config{Profiling: true}).get("admin", "/debug/pprof/cmdline"); got.status != http.StatusOK {
		t.Errorf("status %d", got.status)
	}
	if got := run(t, Config{}).get("admin", "/debug/pprof/cmdline"); got.status != http.StatusNotFound {
		t.Errorf("served although nobody asked: status %d", got.status)
	}
}

func TestAdminBeyondLoopbackNeedsAToken(t *testing.T) {
	for address, refused := range map[string]bool{
		":6070": true, "0.0.0.0:6070": true, "10.0.0.1:6070": true, "example.com:6070": true, "[::]:6070": true,
		"127.0.0.1:6070": false, "localhost:6070": false, "[::1]:6070": false, "127.9.9.9:0": false, "[::ffff:127.0.0.1]:0": false,
	} {
		_, err := New(Config{Admin: address, Store: failing{}})
		if (err != nil) != refused {
			t.Errorf("%s: error %v", address, err)
		}
		if _, err := New(Config{Admin: address, AdminToken: "t", Store: failing{}}); err != nil {
			t.Errorf("%s with a token: %v", address, err)
		}
	}
}
