package adminapi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/cmd/stint/internal/ruleset"
	"github.com/stintdev/stint/rule"
)

// sharedSource is a source whose nodes announce what the test says.
type sharedSource struct {
	ruleset.Memory

	nodes []ruleset.Node
	err   error // that of the list of nodes
}

func (*sharedSource) Announce(context.Context, ruleset.Node) error              { return nil }
func (*sharedSource) Secret(_ context.Context, proposed string) (string, error) { return proposed, nil }
func (s *sharedSource) Nodes(context.Context) ([]ruleset.Node, error)           { return s.nodes, s.err }

const canaryShop = `tiers:
  free: {limit: 2, window: 60}
rules:
  - {id: orders, by: [api_key], limit: 10, window: 60}
  - {id: paths, by: [path], limit: 100, window: 60}
`

func newCanaryFixture(t *testing.T) (*fixture, *sharedSource) {
	t.Helper()
	source := &sharedSource{}
	f := &fixture{t: t, logs: &bytes.Buffer{}, time: start, store: stint.NewMemory(stint.MemoryOptions{})}
	f.keeper = ruleset.NewManager(ruleset.Options{Source: source, OnSet: func(*rule.Set, ruleset.Version) {}})
	if err := f.keeper.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.API = New(Config{Rules: f.keeper, Store: f.store, Logger: slog.New(slog.NewTextHandler(f.logs, nil))})
	f.want(200, "PUT", "/rules", canaryShop)
	return f, source
}

func replaced(pairs ...string) string { return strings.NewReplacer(pairs...).Replace(canaryShop) }

func TestACanaryIsPublishedShownAndPromoted(t *testing.T) {
	f, source := newCanaryFixture(t)
	if got := f.want(200, "GET", "/v1/canary", ""); got.at(t, "on") != false {
		t.Error(got.body)
	}
	next := replaced("limit: 10,", "limit: 5,", "limit: 100,", "limit: 50,")
	const query = "?canary=5%25&soak=10m&abort_above=2%25"
	dry := f.want(200, "PUT", "/rules"+query+"&dry_run=true", next)
	if dry.at(t, "canary.rules_kept").([]any)[0] != "paths" || len(dry.at(t, "canary.rules_kept").([]any)) != 1 || dry.at(t, "version") != 1.0 {
		t.Error(dry.body)
	}
	got := f.want(200, "PUT", "/rules"+query, next, "X-Stint-Comment", "smaller", "X-Stint-Author", "vera")
	if got.at(t, "version") != 2.0 || got.at(t, "canary.share") != 0.05 || got.at(t, "canary.soak") != "10m0s" || got.at(t, "canary.abort_above") != 0.02 || got.at(t, "canary.by") != "api_key" {
		t.Error(got.body)
	}
	limits, kept := got.at(t, "diff.limits").([]any), got.at(t, "canary.kept_limits").([]any)
	if len(limits) != 1 || limits[0].(map[string]any)["rule"] != "orders" || len(kept) != 1 || kept[0].(map[string]any)["is"] != "50/m" || kept[0].(map[string]any)["was"] != "100/m" {
		t.Errorf("%v, %v", limits, kept)
	}
	f.wantText("limit: 10,", true) // the callers that are not in the canary
	if text := f.want(200, "GET", "/rules/versions/2", "", "Accept", "text/yaml").body; text != next {
		t.Error(text)
	}
	if d := f.want(200, "GET", "/rules/diff?from=1&to=2", ""); d.at(t, "rules.changed") == nil {
		t.Error(d.body)
	}
	counts := func(requests, denied uint64) ruleset.Counts {
		return ruleset.Counts{Requests: requests, Denied: denied}
	}
	source.nodes = []ruleset.Node{
		{ID: "a", Version: 2, Canary: &ruleset.CanaryCounts{Version: 2, Control: counts(100, 1), Canary: counts(10, 2)}},
		{ID: "b", Version: 2, Canary: &ruleset.CanaryCounts{Version: 2, Control: counts(200, 2), Canary: counts(20, 4)}},
		{ID: "late", Version: 1, Canary: &ruleset.CanaryCounts{Version: 1, Control: counts(7, 7)}},
	}
	got = f.want(200, "GET", "/v1/canary", "")
	if got.at(t, "version") != 2.0 || got.at(t, "requests.control.requests") != 300.0 || got.at(t, "requests.canary.denied") != 6.0 || got.at(t, "nodes") != 2.0 || got.at(t, "rules_kept").([]any)[0] != "paths" || got.at(t, "comment") != "smaller" {
		t.Error(got.body)
	}
	got = f.want(200, "GET", "/rules/history", "")
	if v := got.at(t, "versions").([]any)[0].(map[string]any); v["canary"].(map[string]any)["control"] != 1.0 {
		t.Error(got.body)
	}
	got = f.want(200, "POST", "/v1/canary/promote?version=2", "", "X-Stint-Comment", "looks well")
	if got.at(t, "version") != 3.0 || len(got.at(t, "diff.limits").([]any)) != 2 {
		t.Error(got.body)
	}
	f.wantText("limit: 5,", true)
	got = f.want(200, "GET", "/rules/history?n=1", "")
	if v := got.at(t, "versions").([]any)[0].(map[string]any); v["comment"] != "canary 2 promoted: looks well" || v["canary"] != nil {
		t.Error(got.body)
	}
	got = f.want(200, "GET", "/audit", "")
	for i, want := range []string{"canary 2 promoted", "put set as a canary for 5 % of the callers"} {
		if e := got.at(t, "entries").([]any)[i].(map[string]any); e["what"] != want || e["result"] != "done" {
			t.Errorf("%v, want %s", e, want)
		}
	}
}

// A key has a state under both sides of a canary, and one of them decides its requests.
func TestBothSidesOfACanaryAreShown(t *testing.T) {
	f, _ := newCanaryFixture(t)
	f.want(200, "PUT", "/rules?canary=0.5", replaced("limit: 10,", "limit: 5,")+"  - {id: tried, by: [api_key], limit: 3, window: 60}\n  - {id: users, by: [user], limit: 3, window: 60}\n")
	_, on := f.keeper.Current()
	decides := 0
	for i := range 20 {
		key := fmt.Sprint("sk_live_", i)
		got := f.want(200, "POST", "/v1/peek", `{"key":"`+key+`","rule":"orders"}`)
		side := got.at(t, "canary.limits").([]any)[0].(map[string]any)
		if got.at(t, "limits").([]any)[0].(map[string]any)["limit"] != 10.0 || side["limit"] != 5.0 || got.at(t, "canary.version") != 2.0 {
			t.Fatal(got.body)
		}
		if got.at(t, "canary.decides") != on.Canary.Has(key) {
			t.Error(got.body)
		}
		if on.Canary.Has(key) {
			decides++
		}
	}
	if decides == 0 || decides == 20 {
		t.Errorf("%d of 20 keys belong to the canary", decides)
	}
	got := f.want(200, "POST", "/v1/peek", `{"key":"sk_live_1","rule":"tried"}`)
	if len(got.at(t, "limits").([]any)) != 0 || len(got.at(t, "canary.limits").([]any)) != 1 {
		t.Error(got.body)
	}
	f.want(404, "POST", "/v1/peek", `{"key":"sk_live_1","rule":"none"}`)
	for body, want := range map[string]struct{ known, keyless bool }{
		`{"key":"192.0.2.1","rule":"*"}`:                                          {true, true},
		`{"key":"alice","rule":"users"}`:                                          {false, false}, // which API key alice has is not known
		`{"attributes":{"user":"alice"},"rule":"users"}`:                          {false, false},
		`{"attributes":{"user":"alice","api_key":"sk_live_1"},"rule":"users"}`:    {true, false},
		`{"attributes":{"user":"alice","ip":"192.0.2.1"},"rule":"users"}`:         {true, true},
		`{"attributes":{"ip":"192.0.2.1","api_key":"sk_live_1"},"rule":"orders"}`: {true, false},
	} {
		got := f.want(200, "POST", "/v1/peek", body)
		_, known := got.at(t, "canary").(map[string]any)["decides"]
		if keyless := got.at(t, "canary").(map[string]any)["keyless"] == true; known != want.known || keyless != want.keyless || got.at(t, "canary.by") != "api_key" {
			t.Errorf("%s: %s", body, got.body)
		}
	}
	f.want(200, "POST", "/v1/canary/abort", "")
	if got := f.want(200, "POST", "/v1/peek", `{"key":"sk_live_1","rule":"orders"}`); strings.Contains(got.body, "canary") {
		t.Error(got.body)
	}
}

func TestNothingElseIsPublishedDuringACanary(t *testing.T) {
	f, _ := newCanaryFixture(t)
	next := replaced("limit: 10,", "limit: 5,", "limit: 100,", "limit: 50,")
	f.want(200, "PUT", "/rules?canary=0.05", next)
	for _, c := range [][3]string{
		{"PUT", "/rules", "rules: []"}, {"PUT", "/rules?force=true", "rules: []"}, {"PUT", "/rules?canary=10%25", next},
		{"PUT", "/rules/orders", `{"limit":"1/m"}`}, {"DELETE", "/rules/orders", ""}, {"PUT", "/rules/tier/free", `{"limit":1}`},
		{"POST", "/rules/rollback", `{"version":1}`}, {"POST", "/v1/ban", `{"key":"k","for":"1h"}`}, {"PUT", "/rules/orders/override/k", `{"limit":1}`},
	} {
		got := f.want(409, c[0], c[1], c[2])
		if got.at(t, "error.code") != "CANARY" || got.at(t, "error.version") != 2.0 || !strings.Contains(got.at(t, "error.message").(string), "version 2 is a canary") {
			t.Errorf("%s %s: %s", c[0], c[1], got.body)
		}
	}
	if got := f.want(409, "POST", "/v1/canary/promote?version=1", ""); got.at(t, "error.code") != "NO_CANARY" {
		t.Error(got.body)
	}
	got := f.want(200, "POST", "/v1/canary/abort", "")
	if limits := got.at(t, "diff.limits").([]any); got.at(t, "version") != 3.0 || len(limits) != 1 || limits[0].(map[string]any)["was"] != "5/m" {
		t.Error(got.body) // the limit of paths was 100/m for the callers of the canary too
	}
	f.wantText("limit: 10,", true)
	for _, path := range []string{"/v1/canary/abort", "/v1/canary/promote"} { // the slower of two operators
		if got := f.want(409, "POST", path, ""); got.at(t, "error.code") != "NO_CANARY" {
			t.Error(got.body)
		}
	}
	f.want(200, "PUT", "/rules", next)
	// A version with a canary stands for the rules that it tries.
	f.want(200, "PUT", "/rules", canaryShop)
	f.want(200, "POST", "/rules/rollback", `{"version":2}`)
	f.wantText("limit: 5,", true)
}

// A change of one rule or one tier is tried like a whole set, by an admin.
func TestACanaryOfARuleOrATier(t *testing.T) {
	for _, c := range []struct{ method, path, body, tried string }{
		{"PUT", "/rules/orders", `{"by":["api_key"],"limit":"4/m"}`, "limit: 4/m"},
		{"DELETE", "/rules/orders", "", "- {id: paths"},
		{"PUT", "/rules/fresh", `{"by":["api_key"],"limit":"4/m"}`, "id: fresh"},
		{"PUT", "/rules/tier/free", `{"limit":3}`, "limit: 3"},
		{"PUT", "/rules/tier/gold", `{"limit":3,"window":60}`, "gold:"},
		{"DELETE", "/rules/tier/free", "", "- {id: paths"},
	} {
		f, _ := newCanaryFixture(t)
		const base = "defaults: {limit: 50, window: 60}\n" + canaryShop + "  - {id: tiered, by: [api_key]}\n"
		f.want(200, "PUT", "/rules", base)
		const query = "?canary=5%25&soak=10m"
		tag := f.do("GET", c.path, "").header.Get("ETag")
		match := []string{"If-Match", tag}
		if tag == "" {
			match = []string{"If-None-Match", "*"}
		}
		if dry := f.want(200, c.method, c.path+query+"&dry_run=true", c.body, match...); dry.at(t, "canary.share") != 0.05 {
			t.Errorf("%s %s: %s", c.method, c.path, dry.body)
		}
		if got := f.want(200, c.method, c.path+query, c.body, match...); got.at(t, "canary.soak") != "10m0s" {
			t.Errorf("%s %s: %s", c.method, c.path, got.body)
		}
		if got := f.text(); got != base { // most callers have the old rules
			t.Errorf("%s %s: %s", c.method, c.path, got)
		}
		if got := f.want(200, "GET", "/rules/versions/3", "", "Accept", "text/yaml").body; got == base || !strings.Contains(got, c.tried) {
			t.Errorf("%s %s: %s", c.method, c.path, got)
		}
		f.want(200, "POST", "/v1/canary/promote", "")
		if got := f.text(); got == base || !strings.Contains(got, c.tried) {
			t.Errorf("%s %s: %s", c.method, c.path, got)
		}
	}
	f, _ := newCanaryFixture(t)
	tokens, err := ParseTokens(rule.File{Name: "tokens", Data: []byte("olga operator " + hash("o") + "\n")}, "")
	if err != nil {
		t.Fatal(err)
	}
	f.Tokens = tokens
	got := f.want(403, "PUT", "/rules/orders?canary=5%25", `{"limit":"1/m"}`, "X-Stint-Token", "o")
	if !strings.Contains(got.body, "canary: olga has the role operator, and canary needs admin") {
		t.Error(got.body)
	}
}

// failingSource fails to list or to publish versions when the test says so.
type failingSource struct {
	sharedSource

	list, publish error
}

func (s *failingSource) History(ctx context.Context, n int) ([]ruleset.Version, error) {
	if s.list != nil {
		return nil, s.list
	}
	return s.sharedSource.History(ctx, n)
}

func (s *failingSource) Publish(ctx context.Context, after uint64, v ruleset.Version) (ruleset.Version, error) {
	if s.publish != nil {
		return ruleset.Version{}, s.publish
	}
	return s.sharedSource.Publish(ctx, after, v)
}

// An error of the source says whether a version may have been published.
func TestErrorsOfTheSourceSayWhatWasDone(t *testing.T) {
	source := &failingSource{}
	f := &fixture{t: t, logs: &bytes.Buffer{}, time: start, store: stint.NewMemory(stint.MemoryOptions{})}
	f.keeper = ruleset.NewManager(ruleset.Options{Source: source, OnSet: func(*rule.Set, ruleset.Version) {}})
	if err := f.keeper.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.API = New(Config{Rules: f.keeper, Store: f.store, Logger: slog.New(slog.NewTextHandler(f.logs, nil))})
	f.want(200, "PUT", "/rules", canaryShop)
	f.want(200, "PUT", "/rules/orders?canary=5%25", `{"by":["api_key"],"limit":"4/m"}`)
	check := func(unknown any, want string) {
		t.Helper()
		for _, path := range []string{"/v1/canary/promote", "/v1/canary/abort"} {
			if got := f.want(503, "POST", path, ""); got.at(t, "error.unknown") != unknown || !strings.Contains(got.body, want) {
				t.Errorf("%s: %s", path, got.body)
			}
		}
	}
	source.publish = errors.New("the connection was reset")
	check(true, "a change may have been published or not")
	source.publish = nil
	f.want(200, "POST", "/v1/canary/abort", "")
	source.publish = errors.New("the connection was reset")
	if got := f.want(503, "PUT", "/rules/orders", `{"limit":"1/m"}`); got.at(t, "error.unknown") != true || !strings.Contains(got.body, "a change may have been published or not") {
		t.Error(got.body)
	}
	source.list, source.publish = errors.New("the connection was refused"), nil
	for _, path := range []string{"/rules/orders", "/rules/orders?dry_run=true", "/rules/orders/override/k"} {
		if got := f.want(503, "PUT", path, `{"limit":"1/m"}`); got.at(t, "error.unknown") != nil || !strings.Contains(got.body, "nothing was changed: the source of the rules does not answer or fails") {
			t.Errorf("%s: %s", path, got.body)
		}
	}
	if got := f.want(503, "GET", "/rules/history", ""); got.at(t, "error.unknown") != nil || strings.Contains(got.body, "changed") {
		t.Error(got.body)
	}
}

func TestCanariesThatAreRefused(t *testing.T) {
	f, _ := newCanaryFixture(t)
	next := replaced("limit: 10,", "limit: 5,")
	for _, c := range []struct {
		status             int
		query, rules, want string
	}{
		{400, "canary=0", next, "canary: 0 is not a share"},
		{400, "canary=100%25", next, "canary: 1 is not a share"},
		{400, "canary=many", next, `canary: \"many\" is not a share (write it as 5% or 0.05)`},
		{400, "canary=NaN", next, "is not a share"},
		{400, "canary=5%25&soak=soon", next, `soak: \"soon\" is not a duration`},
		{400, "canary=5%25&soak=1ms", next, "soak: 1ms is out of range"},
		{400, "canary=5%25&soak=0s", next, "soak: 0 is out of range"},
		{400, "canary=5%25&abort_above=2", next, "abort_above: "},
		{400, "soak=10m", next, "soak and abort_above: are for a canary"},
		{400, "canary=5%25", "rules: [{id: a, limt: 1}]", "limt"},
		{400, "canary=5%25", "ipv6_prefix: 48\n" + next, "ipv6_prefix: a canary cannot change it"},
		{400, "canary=5%25", "identity: [header:X-Key]\n" + next, "identity: a canary cannot change it"},
		{409, "canary=5%25", replaced("limit: 100,", "limit: 50,"), "it changes only limits whose counts all callers share (paths)"},
		{409, "canary=5%25", "# a comment\n" + canaryShop, "it changes nothing but comments"},
	} {
		got := f.want(c.status, "PUT", "/rules?"+c.query, c.rules)
		if !strings.Contains(got.body, c.want) {
			t.Errorf("%s: %s, want %s", c.query, got.body, c.want)
		}
	}
	f.want(400, "PUT", "/lists/deny/k?canary=5%25", "")
	f.want(400, "PUT", "/rules/orders/override/k?canary=5%25", `{"limit":"1/m"}`)
	f.want(400, "POST", "/v1/ban?canary=5%25", `{"key":"k"}`)
	f.want(400, "POST", "/v1/canary/abort?dry_run=true", "")
	if got := f.want(200, "GET", "/rules/history", ""); len(got.at(t, "versions").([]any)) != 1 {
		t.Error(got.body)
	}
	alone := newFixture(t, canaryShop)
	for _, query := range []string{"?canary=5%25", "?canary=5%25&dry_run=true"} {
		if got := alone.want(400, "PUT", "/rules"+query, next); !strings.Contains(got.body, "these rules are not in Redis or PostgreSQL") {
			t.Error(got.body)
		}
	}
}
