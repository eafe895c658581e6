package adminapi

import (
	"strings"
	"testing"
	"time"

	"github.com/stintdev/stint/cmd/stint/internal/denials"
	"github.com/stintdev/stint/rule"
)

// deny decides requests of the rules in force, and keeps the denials.
func (f *fixture) deny(a rule.Map, times int) {
	f.t.Helper()
	if f.Denials == nil {
		f.Denials = denials.New(denials.Options{Surfaces: []string{"check"}, Now: func() time.Time { return f.time }})
	}
	set, _ := f.keeper.Current()
	recorder := f.Denials.Rules(set)
	for range times {
		f.time = f.time.Add(time.Millisecond)
		o := f.decide(a, 1)
		recorder.Record(0, a, 1, &o)
	}
}

func TestDenials(t *testing.T) {
	f := newFixture(t, shop)
	f.want(404, "GET", "/v1/denied", "")
	f.want(404, "POST", "/v1/why", `{"key":"k","rule":"*"}`)
	order := rule.Map{"api_key": "sk_live_customer", "path": "/orders", "ip": "192.0.2.1"}
	f.deny(order, 13)                      // "logins" denies it from the sixth time on
	f.deny(rule.Map{"ip": "192.0.2.2"}, 6) // once
	var next string
	for query, want := range map[string]int{
		"": 9, "?rule=logins": 9, "?rule=orders": 0, "?rule=(take)": 0, "?rule=": 0, "?since=2026-03-01T12:00:00Z": 9, "?since=10ms": 6,
		"?limit=2": 2, "?hash=0000000000000000": 0, "?id=5": 0,
	} {
		got := f.want(200, "GET", "/v1/denied"+query, "")
		if n := strings.Count(got.body, `"time":`); n != want || strings.Contains(got.body, "customer") {
			t.Errorf("%s: %d: %s", query, n, got.body)
		}
		next, _ = got.at(t, "next").(string)
	}
	if got := f.want(200, "GET", "/v1/denied?after="+next, ""); got.at(t, "items") == nil || strings.Contains(got.body, `"time"`) {
		t.Error(got.body)
	}
	trial, err := rule.Parse(rule.File{Name: "tried.yaml", Data: []byte("rules: [{id: tried, by: [api_key], limit: 1, window: 60}]")})
	if err != nil {
		t.Fatal(err)
	}
	recorder := f.Denials.Rules(trial) // as of a canary: the rule is not in the set that others have
	o, err := trial.Decide(t.Context(), f.Store, order, 2)
	if err != nil {
		t.Fatal(err)
	}
	recorder.Record(0, order, 2, &o)
	if got := f.want(200, "GET", "/v1/denied?rule=tried", ""); strings.Count(got.body, `"time":`) != 1 {
		t.Error(got.body)
	}
	for query, want := range map[string]string{
		"?rule=order":     `rule: there is no rule`,
		"?since=soon":     `since: `,
		"?since=-1m":      `since: `,
		"?after=x":        `after: `,
		"?limit=0":        `limit: `,
		"?limit=1001":     `limit: `,
		"?id=-1":          `id: `,
		"?id=%2B1":        `id: `,
		"?limit=1&id=one": `id: `,
	} {
		status := 400
		if query == "?rule=order" {
			status = 404
		}
		if got := f.want(status, "GET", "/v1/denied"+query, ""); !strings.Contains(got.body, want) {
			t.Errorf("%s: %s", query, got.body)
		}
	}
}

func TestWhyAKeyIsDenied(t *testing.T) {
	f := newFixture(t, `
whitelist: [sk_friend]
rules:
- {id: orders, match: {path: /orders}, by: [api_key], missing: ip, limit: 10, window: 60}
- {id: pairs, match: {path: /pairs}, by: [api_key, ip], limit: 1, window: 60}
- {id: shared, match: {path: /shared}, by: [api_key], missing: shared, limit: 1, window: 60}
`)
	f.deny(rule.Map{"api_key": "sk_one", "path": "/orders", "ip": "192.0.2.1"}, 12)
	f.deny(rule.Map{"path": "/orders", "ip": "192.0.2.2"}, 11)
	f.deny(rule.Map{"path": "/orders", "ip": "2001:db8:1:2::9"}, 11)
	f.deny(rule.Map{"api_key": "sk_one", "path": "/pairs", "ip": "192.0.2.1"}, 4)
	f.deny(rule.Map{"path": "/shared", "ip": "192.0.2.1"}, 4)
	for body, want := range map[string]int{
		`{"key":"sk_one","rule":"*"}`:                                         2,
		`{"key":"sk_one","rule":"orders"}`:                                    2,
		`{"key":"192.0.2.2","rule":"*"}`:                                      1, // the address stands for the missing key
		`{"key":"2001:db8:1:2::1","rule":"*"}`:                                1, // its network does
		`{"key":"192.0.2.1","rule":"*"}`:                                      0, // not the denials of all without a key
		`{"attributes":{"api_key":"sk_one","ip":"192.0.2.1"},"rule":"*"}`:     5,
		`{"attributes":{"api_key":"sk_one","ip":"192.0.2.9"},"rule":"*"}`:     2,
		`{"attributes":{"ip":"192.0.2.1"},"rule":"shared"}`:                   3,
		`{"key":"sk_none","rule":"*"}`:                                        0,
		`{"key":"sk_one","limit":"1/s"}`:                                      0,
		`{"attributes":{"api_key":"sk_one","ip":"192.0.2.1"},"rule":"pairs"}`: 3,
	} {
		got := f.want(200, "POST", "/v1/why", body)
		if n := strings.Count(got.body, `"time":`); n != want {
			t.Errorf("%s: %d denials: %s", body, n, got.body)
		}
	}
	if got := f.want(200, "POST", "/v1/why?limit=1", `{"key":"sk_one","rule":"orders"}`); got.at(t, "left_out") != 1.0 || !strings.Contains(got.body, `"remaining":0`) {
		t.Error(got.body)
	}
	f.want(400, "POST", "/v1/why?limit=0", `{"key":"sk_one","rule":"orders"}`)
	f.want(400, "POST", "/v1/why", `{"key":"sk_one","rule":"pairs"}`)
	f.want(404, "POST", "/v1/why", `{"key":"sk_one","rule":"none"}`)
}

func TestOnlyAdminsSeeTheIDsOfDenials(t *testing.T) {
	f := newFixture(t, shop)
	f.deny(rule.Map{"ip": "192.0.2.1"}, 6)
	var err error
	f.Tokens, err = ParseTokens(rule.File{Name: "tokens", Data: []byte("v viewer " + hash("viewer") + "\no operator " + hash("operator") + "\na admin " + hash("admin") + "\n")}, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, role := range roles() {
		token := "Bearer " + string(role)
		got := f.want(200, "GET", "/v1/denied", "", "Authorization", token)
		why := f.want(200, "POST", "/v1/why", `{"key":"192.0.2.1","rule":"logins"}`, "Authorization", token)
		if strings.Contains(got.body, `"id"`) != (role == Admin) || strings.Contains(why.body, `"id"`) != (role == Admin) || !strings.Contains(why.body, `"time"`) {
			t.Errorf("%s: %s %s", role, got.body, why.body)
		}
		if role != Admin {
			f.want(400, "GET", "/v1/denied?id=5", "", "Authorization", token)
		}
	}
}
