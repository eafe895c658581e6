package server

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/grpclimit"
	"github.com/stintdev/stint/httplimit"
	"github.com/stintdev/stint/rule"
	"github.com/stintdev/stint/rule/rulelimit"
)

// inProgram returns a decider by rules, as a program makes it, over a store of its own.
func inProgram(t *testing.T, text string, c *clock) *rulelimit.Decider {
	t.Helper()
	set, err := rule.Parse(rule.File{Name: "rules.yaml", Data: []byte(text)})
	if err != nil {
		t.Fatal(err)
	}
	store := stint.NewMemory(stint.MemoryOptions{MaxKeys: 10_000, Clock: c.time})
	d, err := rulelimit.New(set, store, rulelimit.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

const rulesOfEveryKind = `
defaults: {limit: 3, window: 10s}
tiers:
  free: {api_key_pattern: "free_*", limit: 1, window: 10s}
  gold: {api_key_pattern: "gold_*", limit: 5, window: 10s}
whitelist: ["staff_*"]
blacklist: ["bad_*"]
rules:
  - {id: tiers, match: {path_prefix: /v1}}
  - {id: each, match: {path: /v1/two}, limits: [{limit: 2, window: 5s}, {algorithm: fixed_window, limit: 3, window: 60s}]}
  - {id: either, match: {path: /v1/either}, by: [ip], combine: any, limits: [{limit: 1, window: 5s}, {algorithm: gcra, limit: 2, window: 9s}]}
  - {id: tried, match: {methods: [POST]}, mode: shadow, by: [ip, path], limit: 1, window: 60s}
  - {id: queue, match: {path: /queue}, algorithm: leaky_bucket, limit: 1, window: 1s, queue: 2}
  - {id: costly, match: {headers: {x-kind: "b*"}}, cost: 2, limit: 3, window: 30s, override: {other: {limit: 5, window: 30s}}}
  - {id: closed, match: {path: /closed}, deny_all: true}
`

// requestsOfEveryKind are attributes of requests to these rules.
func requestsOfEveryKind() (all []rule.Map) {
	for _, key := range []string{"", "free_1", "gold_1", "staff_1", "bad_1", "other"} {
		for _, path := range []string{"/v1/one", "/v1/two", "/v1/either", "/queue", "/closed", "/else"} {
			method := []string{"GET", "POST"}[len(all)%2]
			a := rule.Map{"path": path, "method": method, "ip": "192.0.2.1", "host": "example.com"}
			if key != "" {
				a["api_key"] = key
			}
			if len(all)%5 == 0 {
				a["header:x-kind"] = "bots"
			}
			all = append(all, a)
		}
	}
	return all
}

func httpRequest(a rule.Map) *http.Request {
	r := httptest.NewRequest(a["method"], "http://example.com"+a["path"], http.NoBody) // from 192.0.2.1
	for attribute, header := range map[string]string{"api_key": "X-API-Key", "header:x-kind": "X-Kind"} {
		if value := a[attribute]; value != "" {
			r.Header.Set(header, value)
		}
	}
	return r
}

// line is one decision in an answer of the check API.
type line struct {
	numbers

	Listed bool   `json:"listed"`
	Rule   string `json:"rule"`
	Shadow bool   `json:"shadow"`
	Limits []line `json:"limits"`
}

// saidByAnswer is an answer in the form of saidByCheck.
func saidByAnswer(a *httplimit.Answer) string {
	said := fmt.Sprintf("allowed %v listed %v", a.Allowed(), a.Listed)
	if a.Binding >= 0 {
		if a.Decision.RetryAfter == stint.Never { // decided without the store, so at a time of its own
			a.Decision.At = 0
		}
		said += " " + inAPI(decided{combined: a.Decision, each: []stint.Decision{}})
	}
	for _, p := range a.Policies {
		said += fmt.Sprintf("; %s exceeded %v", p.Limit.Rule(), p.Exceeded)
	}
	return said
}

func saidByCheck(t *testing.T, body string) string {
	t.Helper()
	var got line
	if err := json.Unmarshal([]byte(body), &got); err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	said := fmt.Sprintf("allowed %v listed %v", got.Allowed, got.Listed)
	if got.Rule != "" {
		if got.Never {
			got.AtUS = 0
		}
		said += " " + got.String()
	}
	for _, l := range got.Limits {
		if !l.Shadow {
			said += fmt.Sprintf("; %s exceeded %v", l.Rule, !l.Allowed)
		}
	}
	return said
}

// A program with the rules of the server decides every request as the check API does.
func TestAProgramDecidesAsTheCheckAPI(t *testing.T) {
	s := run(t, Config{Rules: rulesFile(t, rulesOfEveryKind)})
	d := inProgram(t, rulesOfEveryKind, s.clock)
	kinds := map[string]int{}
	for n := range 4 {
		for _, a := range requestsOfEveryKind() {
			body, err := json.Marshal(map[string]any{"attributes": a})
			if err != nil {
				t.Fatal(err)
			}
			want := saidByCheck(t, s.post("http", "/v1/check", string(body)).body)
			answer, err := d.Decide(t.Context(), httplimit.NewRequest(httpRequest(a), nil))
			if err != nil {
				t.Fatal(err)
			}
			if got := saidByAnswer(&answer); got != want {
				t.Errorf("%d, %v:\ngot  %s\nwant %s", n, a, got, want)
			}
			kinds[fmt.Sprint(answer.Status(), answer.Decision.Delay > 0)]++
		}
		s.clock.add(700 * time.Millisecond)
	}
	if got := slices.Sorted(maps.Keys(kinds)); !slices.Equal(got, []string{"200 false", "200 true", "403 false", "429 false"}) {
		t.Errorf("the requests only had these answers: %v", kinds)
	}
}

// The same rules limit calls of gRPC: the path of a call is its full method.
func TestRulesLimitCallsInAProgram(t *testing.T) {
	d := inProgram(t, `
tiers: {gold: {api_key_pattern: "gold_*", limit: 2, window: 1h}}
blacklist: ["bad_*"]
rules: [{id: orders, match: {path_prefix: /shop.Orders/}, limit: 1, window: 1h}, {id: tiers, tier: gold}]
`, newClock())
	server, err := grpclimit.New(grpclimit.HTTP{Decider: d}, grpclimit.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		method, key string
		want        []codes.Code
	}{
		{"/shop.Orders/Get", "k", []codes.Code{codes.OK, codes.ResourceExhausted}},
		{"/shop.Stock/Get", "k", []codes.Code{codes.OK, codes.OK, codes.OK}},
		{"/shop.Stock/Get", "gold_1", []codes.Code{codes.OK, codes.OK, codes.ResourceExhausted}},
		{"/shop.Stock/Get", "bad_1", []codes.Code{codes.PermissionDenied}},
	} {
		ctx := metadata.NewIncomingContext(t.Context(), metadata.Pairs("authorization", "Bearer "+c.key))
		for i, want := range c.want {
			_, err := server.Unary(ctx, nil, &grpc.UnaryServerInfo{FullMethod: c.method}, func(context.Context, any) (any, error) { return struct{}{}, nil })
			if got := status.Code(err); got != want {
				t.Errorf("%s by %s, call %d: %v, want %v", c.method, c.key, i, got, want)
			}
		}
	}
}
