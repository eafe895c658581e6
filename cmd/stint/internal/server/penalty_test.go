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
	if got := s.post("http", "/v1/check", body).decoded(t); got["allowed"] != false || got["retry_after_ms"] != 10000.0 {
		t.Errorf("check: %v", got)
	}
	for _, item := range answersOf(t, s.post("http", "/v1/batch", batchOf(body, body))) {
		if !strings.Contains(item, `"allowed":false`) || !strings.Contains(item, `"retry_after_ms":10000`) {
			t.Errorf("batch: %s", item)
		}
	}
	if got := s.get("gateway", "/", "X-API-Key", "k"); got.status != 429 || got.header.Get("Retry-After") != "10" || got.header.Get("X-RateLimit-Remaining") != "0" {
		t.Errorf("gateway: %d %v", got.status, got.header)
	}
	if got := s.get("http", "/v1/auth/", "X-API-Key", "k"); got.status != 429 || got.header.Get("Retry-After") != "10" {
		t.Errorf("forward auth: %d %v", got.status, got.header)
	}
	native, err := stintv1.NewLimiterServiceClient(dialGRPC(t, s)).CheckBatch(t.Context(),
		&stintv1.CheckBatchRequest{Names: []string{"api_key", "path"}, Values: []string{"k", "/", "other", "/"}})
	if err != nil {
		t.Fatal(err)
	}
	if d := native.GetDecisions(); fmt.Sprint(d.GetAllowed(), d.GetRetryAfterUs()) != "[false true] [10000000 0]" {
		t.Errorf("native: %v", native)
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
