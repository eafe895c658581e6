package server

import (
	"fmt"
	"strings"
	"testing"
	"time"

	stintv1 "github.com/stintdev/stint/api/stint/v1"
)

const punishing = `
rules:
  - {id: api, match: {path_prefix: /}, limit: 1, window: 1s, penalty: {after: 20, cool_down: 1h, max: 1h}}
`

// Every surface that decides by rules applies penalties, and reports when they end.
func TestPenaltiesHoldOnEverySurface(t *testing.T) {
	s := run(t, Config{Rules: rulesFile(t, punishing), Gateway: "127.0.0.1:0", GRPC: "127.0.0.1:0", Upstreams: echo(t)})
	body := `{"attributes":{"api_key":"k","path":"/"}}`
	for range 21 {
		s.post("http", "/v1/check", body)
	}
	s.wantMetric(`stint_penalties_total{penalty="cool_down",rule="api"} 1`, true)
	s.clock.add(time.Hour - 10*time.Second) // the limit itself would allow
	reason := "Blocked until " + s.clock.time().Add(10*time.Second).UTC().Format(time.RFC3339) + " after 20 denials"
	if got := s.post("http", "/v1/check", body).decoded(t); got["allowed"] != false || got["retry_after_ms"] != 10000.0 || got["penalty"] != "cool_down" || got["reason"] != reason {
		t.Errorf("check: %v, want %s", got, reason)
	}
	for _, item := range answersOf(t, s.post("http", "/v1/batch", batchOf(body, body))) {
		if !strings.Contains(item, `"allowed":false`) || !strings.Contains(item, `"retry_after_ms":10000`) || !strings.Contains(item, reason) {
			t.Errorf("batch: %s", item)
		}
	}
	for _, c := range []struct{ listener, path string }{{"gateway", "/"}, {"http", "/v1/auth/"}} {
		got := s.get(c.listener, c.path, "X-API-Key", "k")
		if got.status != 429 || got.header.Get("Retry-After") != "10" || got.header.Get("X-RateLimit-Remaining") != "0" || got.header.Get("X-RateLimit-Penalty") != "cool_down" {
			t.Errorf("%s: %d %v", c.listener, got.status, got.header)
		}
		if !strings.Contains(got.body, `"message":"`+reason+`"`) || !strings.Contains(got.body, `"penalty":"cool_down"`) || strings.Contains(got.body, `"limit"`) {
			t.Errorf("%s: %s", c.listener, got.body)
		}
	}
	native, err := stintv1.NewLimiterServiceClient(dialGRPC(t, s)).CheckBatch(t.Context(),
		&stintv1.CheckBatchRequest{Names: []string{"api_key", "path"}, Values: []string{"k", "/", "other", "/"}})
	if err != nil {
		t.Fatal(err)
	}
	if d := native.GetDecisions(); fmt.Sprint(d.GetAllowed(), d.GetRetryAfterUs(), d.GetPenalty()) != "[false true] [10000000 0] [cool_down ]" {
		t.Errorf("native: %v", native)
	}
	one, err := stintv1.NewLimiterServiceClient(dialGRPC(t, s)).Check(t.Context(), &stintv1.CheckRequest{Attributes: map[string]string{"api_key": "k", "path": "/"}})
	if err != nil || one.GetReason() != reason || one.GetDecision().GetPenalty() != "cool_down" {
		t.Errorf("native: %v, %v", one, err)
	}
	s.clock.add(10 * time.Second)
	if got := s.post("http", "/v1/check", body).decoded(t); got["allowed"] != true {
		t.Errorf("after the penalty: %v", got)
	}
}

func TestAChangeOfRulesEndsNoPenalty(t *testing.T) {
	s := run(t, Config{})
	body := `{"attributes":{"api_key":"k","path":"/"}}`
	put := func(rules string) {
		t.Helper()
		if got := s.do("PUT", "admin", "/rules", rules, nil); got.status != 200 {
			t.Fatal(got.body)
		}
	}
	put(punishing)
	for range 21 {
		s.post("http", "/v1/check", body)
	}
	put(strings.ReplaceAll(punishing, "limit: 1,", "limit: 100,"))
	if got := s.post("http", "/v1/check", body).decoded(t); got["allowed"] != false || got["retry_after_ms"] != 3600000.0 {
		t.Errorf("another limit: %v", got)
	}
	put(strings.ReplaceAll(punishing, ", penalty: {after: 20, cool_down: 1h, max: 1h}", ""))
	s.clock.add(time.Second)
	if got := s.post("http", "/v1/check", body).decoded(t); got["allowed"] != true {
		t.Errorf("without the penalty: %v", got)
	}
}
