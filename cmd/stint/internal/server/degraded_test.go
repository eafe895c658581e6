package server

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/cmd/stint/internal/metrics"
	storeguard "github.com/stintdev/stint/guard"
)

const failurePolicies = `rules:
  - {id: open, match: {path: /open}, by: [api_key], limit: 1, window: 60}
  - {id: closed, match: {path: /closed}, by: [api_key], limit: 1, window: 60, on_store_failure: closed}
  - {id: local, match: {path: /local}, by: [api_key], limit: 1, window: 60, on_store_failure: local}
  - {id: known, match: {path: /known}, by: [api_key], limit: 1, window: 60, on_store_failure: last_known}
  - {id: own, match: {path: /own}, by: [api_key], limit: 1, window: 60, on_store_failure: {local: {limit: 2, window: 30, by: [ip]}}}
  - {id: both-local, match: {path: /both}, by: [api_key], limit: 1, window: 3600, on_store_failure: local}
  - {id: both-closed, match: {path: /both}, by: [api_key], limit: 1, window: 60, on_store_failure: closed}
  - {id: both-open, match: {path: /both}, by: [api_key], limit: 1, window: 60}
`

// guarded is a server whose store never answers.
func guarded(t *testing.T, config Config) *running {
	t.Helper()
	config.StoreCalls = metrics.NewStoreCalls(false)
	store, err := storeguard.New(failing{code: stint.CodeUnavailable}, storeguard.Options{Observer: config.StoreCalls})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	config.Store, config.Rules = store, rulesFile(t, failurePolicies)
	return run(t, config)
}

func TestEachRuleDecidesWhileTheStoreFails(t *testing.T) {
	s := guarded(t, Config{})
	for _, c := range []struct {
		path   string
		key    string
		status int
		body   string
	}{
		{"/open", "k", http.StatusOK, `"allowed":true`},
		{"/open", "k", http.StatusOK, `"allowed":true`},
		{"/closed", "k", http.StatusServiceUnavailable, `"allowed":false`},
		{"/local", "k", http.StatusOK, `"allowed":true`},
		{"/local", "k", http.StatusOK, `"allowed":false`},
		{"/local", "l", http.StatusOK, `"allowed":true`},
		{"/known", "k", http.StatusOK, `"allowed":true`},
		{"/known", "k", http.StatusOK, `"allowed":false`},
		{"/own", "k", http.StatusOK, `"allowed":true`},
		{"/own", "l", http.StatusOK, `"allowed":true`},
		{"/own", "m", http.StatusOK, `"allowed":false`},
		{"/both", "k", http.StatusServiceUnavailable, `"allowed":false`},
	} {
		got := s.post("http", "/v1/check", `{"attributes":{"api_key":"`+c.key+`","ip":"192.0.2.1","path":"`+c.path+`"}}`)
		if got.status != c.status || !strings.HasPrefix(got.body, "{"+c.body) || !strings.Contains(got.body, `"degraded":true`) {
			t.Errorf("%s by %s: status %d, %s", c.path, c.key, got.status, got.body)
		}
		if closed := c.status == http.StatusServiceUnavailable; closed != (got.header.Get("Retry-After") != "") {
			t.Errorf("%s: Retry-After %q", c.path, got.header.Get("Retry-After"))
		}
	}
	for _, line := range []string{
		`stint_decisions_total{decision="error_open",rule="open"} 2`, `stint_decisions_total{decision="error_closed",rule="closed"} 1`,
		`stint_decisions_total{decision="error_local",rule="local"} 3`, `stint_decisions_total{decision="error_local",rule="own"} 3`,
		`stint_decisions_total{decision="error_closed",rule="both-closed"} 1`, `stint_decisions_total{decision="error_last_known",rule="known"} 2`,
		`stint_store_errors_total{kind="unavailable",shard=""} 12`, "stint_store_up 0",
	} {
		s.wantMetric(line, true)
	}
}

func TestDegradedAnswersHaveNoOtherHeaders(t *testing.T) {
	for surface, prefix := range map[string]string{"http": "/v1/auth", "gateway": ""} {
		t.Run(surface, func(t *testing.T) {
			s := guarded(t, Config{Gateway: "127.0.0.1:0", Upstreams: echo(t)})
			for path, status := range map[string]int{
				"/open": http.StatusOK, "/closed": http.StatusServiceUnavailable, "/local": http.StatusOK, "/both": http.StatusServiceUnavailable,
			} {
				wantDegraded(t, s.get(surface, prefix+path, "X-API-Key", "k"), status)
			}
			wantDegraded(t, s.get(surface, prefix+"/local", "X-API-Key", "k"), http.StatusTooManyRequests)
		})
	}
}

func TestDegradedDenialTellsOfTheLimitOfItsOwn(t *testing.T) {
	s := guarded(t, Config{Gateway: "127.0.0.1:0", Upstreams: echo(t)})
	for range 2 {
		s.get("gateway", "/own", "X-API-Key", "k")
	}
	got := s.get("gateway", "/own", "X-API-Key", "k")
	if got.status != http.StatusTooManyRequests || !strings.Contains(got.body, "Rate limit of 2 requests per 30 seconds exceeded") || !strings.Contains(got.body, `"window_seconds":30`) {
		t.Error(got.status, got.body)
	}
}

// wantDegraded checks the status and the headers of an answer that was decided without the
// store.
func wantDegraded(t *testing.T, got answer, status int) {
	t.Helper()
	if got.status != status || got.header.Get("X-RateLimit-Remaining") != "-1" || got.header.Get("X-RateLimit-Policy") != "degraded" {
		t.Errorf("status %d, want %d; %v", got.status, status, got.header)
	}
	for name := range got.header {
		if strings.HasPrefix(name, "Ratelimit") || name == "X-Ratelimit-Limit" || name == "X-Ratelimit-Reset" {
			t.Errorf("status %d: %s: %s", status, name, got.header.Get(name))
		}
	}
	want := map[int]string{http.StatusServiceUnavailable: "1", http.StatusTooManyRequests: "60"}[status]
	if retry := got.header.Get("Retry-After"); retry != want {
		t.Errorf("status %d: Retry-After %q, want %q", status, retry, want)
	}
}

func TestCallersLimitIsOpenUnlessTheySay(t *testing.T) {
	s := guarded(t, Config{})
	for _, c := range []struct {
		fields string
		status int
		body   string
	}{
		{``, http.StatusOK, `"allowed":true`},
		{`,"cost":0`, http.StatusOK, `"allowed":true`},
		{`,"on_store_failure":"open"`, http.StatusOK, `"allowed":true`},
		{`,"on_store_failure":"closed"`, http.StatusServiceUnavailable, `"allowed":false`},
		{`,"on_store_failure":"local"`, http.StatusOK, `"allowed":true`},
		{`,"on_store_failure":"local"`, http.StatusOK, `"allowed":false`},
		{`,"on_store_failure":"last_known"`, http.StatusOK, `"allowed":false`},
		{`,"on_store_failure":"shut"`, http.StatusBadRequest, `"error":`},
		{`,"on_store_failure":1`, http.StatusBadRequest, `"error":`},
		{`,"cost":-1`, http.StatusServiceUnavailable, `"error":{"code":"STORE_UNAVAILABLE"`},
	} {
		got := s.post("http", "/v1/take", `{"key":"k","limit":"1/h"`+c.fields+`}`)
		if got.status != c.status || !strings.HasPrefix(got.body, "{"+c.body) {
			t.Errorf("%s: status %d, %s", c.fields, got.status, got.body)
		}
		if strings.Contains(c.body, "allowed") != strings.Contains(got.body, `"degraded":true`) {
			t.Errorf("%s: %s", c.fields, got.body)
		}
	}
	for _, series := range []string{`error_open",rule="(take)"} 3`, `error_closed",rule="(take)"} 1`, `error_local",rule="(take)"} 2`, `error_last_known",rule="(take)"} 1`} {
		s.wantMetric(`stint_decisions_total{decision="`+series, true)
	}
}

func TestForgettingNeedsTheStore(t *testing.T) {
	s := guarded(t, Config{})
	got := s.post("admin", "/v1/reset", `{"key":"k","limit":"1/h"}`)
	if got.status != http.StatusServiceUnavailable || !strings.Contains(got.body, "STORE_UNAVAILABLE") || strings.Contains(got.body, "10.0.0.5") {
		t.Errorf("status %d, %s", got.status, got.body)
	}
}

func TestStoreThatIsLeftAloneIsNotLoggedForEachRequest(t *testing.T) {
	s := guarded(t, Config{})
	lines := func(requests int) int {
		for range requests {
			s.post("admin", "/v1/reset", `{"key":"k","limit":"1/h"}`)
		}
		bounded := s.log.Handler().(*boundedLog)
		return strings.Count(s.logs.String(), "no decision") + int(bounded.kinds["no decision"].suppressed)
	}
	if before, after := lines(40), lines(20); before == 0 || after != before {
		t.Errorf("%d lines before the breaker opened, %d then", before, after-before)
	}
}

func TestReadyWithoutAStore(t *testing.T) {
	s := guarded(t, Config{})
	if got := s.get("http", "/readyz"); got.status != http.StatusOK {
		t.Errorf("status %d", got.status)
	}
}

func TestReadyNamesThePartsThatAreDown(t *testing.T) {
	var down atomic.Bool
	s := run(t, Config{Shared: func() metrics.SharedStats { return metrics.SharedStats{Up: !down.Load()} }})
	for _, c := range []struct{ path, want string }{
		{"/readyz", "ok\n"},
		{"/readyz?verbose", "ok\nrules: version 0\nrules source: up\nstore: up\n"},
	} {
		if got := s.get("http", c.path); got.status != http.StatusOK || got.body != c.want {
			t.Errorf("%s: status %d, %q, want %q", c.path, got.status, got.body, c.want)
		}
	}
	down.Store(true)
	if got := s.get("http", "/readyz?verbose"); got.status != http.StatusOK || !strings.Contains(got.body, "store: down") {
		t.Errorf("status %d, %q", got.status, got.body)
	}
}

func TestSharedStoreShowsItself(t *testing.T) {
	shared := metrics.SharedStats{Up: true, NoScript: 3, Swaps: &metrics.SwapStats{Done: 11, Early: 16, Lost: 12, Unknown: 13, Locks: 14, Throttled: 15}, Callers: &metrics.BudgetStats{Bytes: 4096, Refused: 7}, Nodes: 2, Clocks: []metrics.ClockStats{{Skew: -1500 * time.Millisecond, Measured: time.Unix(1_700_000_000, 0)}}, Breakers: []metrics.BreakerStats{{Shard: "10.0.0.5:6379", Open: true, Opens: 2}, {Shard: "10.0.0.6:6379"}}}
	s := run(t, Config{Shared: func() metrics.SharedStats { return shared }})
	for _, series := range []string{
		"stint_store_up 1", "stint_caller_bytes 4096", "stint_caller_refused_total 7", "stint_noscript_total 3", "stint_store_nodes 2", `stint_clock_skew_seconds{shard=""} -1.5`, `stint_clock_skew_measured_timestamp_seconds{shard=""} 1.7e+09`,
		`stint_store_breaker_open{shard="10.0.0.5:6379"} 1`, `stint_store_breaker_open{shard="10.0.0.6:6379"} 0`,
		`stint_store_breaker_opens_total{shard="10.0.0.5:6379"} 2`,
		`stint_store_swaps_total{outcome="done"} 11`, `stint_store_swaps_total{outcome="early"} 16`, `stint_store_swaps_total{outcome="lost"} 12`, `stint_store_swaps_total{outcome="unknown"} 13`,
		"stint_store_locks_total 14", "stint_store_throttled_total 15",
	} {
		s.wantMetric(series, true)
	}
}
