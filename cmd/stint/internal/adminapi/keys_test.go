package adminapi

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/rule"
)

// take uses up the limits of a request with these attributes.
func (f *fixture) decide(a rule.Map, cost int64) rule.Outcome {
	f.t.Helper()
	set, _ := f.keeper.Current()
	o, err := set.Decide(f.t.Context(), f.store, a, cost)
	if err != nil {
		f.t.Fatal(err)
	}
	return o
}

func TestKeysArePeekedGrantedAndReset(t *testing.T) {
	f := newFixture(t, shop)
	order := rule.Map{"api_key": "sk_live_customer", "path": "/orders", "ip": "192.0.2.1"}
	f.decide(order, 4)
	left := func(body string) any {
		t.Helper()
		got := f.want(200, "POST", "/v1/peek", body)
		limits, _ := got.value(t)["limits"].([]any)
		if len(limits) != 1 || strings.Contains(got.body, "customer") {
			t.Fatal(got.body)
		}
		return limits[0].(map[string]any)["remaining"]
	}
	const key = `{"key":"sk_live_customer","rule":"orders"}`
	if got := left(key); got != 6.0 {
		t.Errorf("%v are left", got)
	}
	if got := left(`{"attributes":{"ip":"192.0.2.1"},"rule":"logins"}`); got != 1.0 {
		t.Errorf("%v are left", got)
	}
	if got := left(`{"key":"192.0.2.1","rule":"logins"}`); got != 1.0 {
		t.Errorf("%v are left by the address as a key", got)
	}
	if got := left(`{"key":"sk_live_customer","rule":"*"}`); got != 6.0 {
		t.Errorf("%v are left of all rules by key", got)
	}
	granted := f.want(200, "POST", "/v1/grant", `{"key":"sk_live_customer","rule":"orders","units":3}`)
	if !strings.Contains(granted.body, `"remaining":9`) || !strings.Contains(granted.body, `"remaining_before":6`) {
		t.Error(granted.body)
	}
	f.want(200, "POST", "/v1/grant", `{"key":"sk_live_customer","rule":"orders","units":300}`)
	if got := left(key); got != 10.0 {
		t.Errorf("%v are left, more than all", got)
	}
	f.decide(order, 5)
	f.want(200, "POST", "/v1/reset", key)
	if got := left(key); got != 10.0 {
		t.Errorf("%v are left after a reset", got)
	}
}

func TestRulesThatAreOffDoNotCount(t *testing.T) {
	f := newFixture(t, shop+"  - {id: resting, limit: 1/s, mode: off}\n")
	got := f.want(200, "POST", "/v1/peek", `{"key":"k","rule":"*"}`)
	if !strings.Contains(got.body, `"rule":"orders"`) || strings.Contains(got.body, "resting") {
		t.Error(got.body)
	}
}

// A limit that is used up need not deny: the rule may be in shadow mode, or need one limit of several.
func TestLimitsSayWhetherTheyDeny(t *testing.T) {
	f := newFixture(t, `rules:
  - {id: watched, match: {path: /a}, by: [api_key], limit: 3/h, mode: shadow}
  - {id: either, match: {path: /a}, by: [api_key], combine: any, limits: [{limit: 2, window: 1h}, {limit: 500, window: 2h}]}
  - {id: paths, match: {path: /a}, by: [api_key, path], limit: 4/h}
`)
	body := f.want(200, "POST", "/v1/peek", `{"rule":"*","attributes":{"api_key":"alice","path":"/a"}}`).body
	for id, want := range map[string]string{"watched": `"shadow":true,"words"`, "either": `"any":true,"words"`, "paths": `"reset_after_ms":0,"words"`} {
		_, rest, _ := strings.Cut(body, `"rule":"`+id+`"`)
		if limit, _, _ := strings.Cut(rest, "}"); !strings.Contains(limit, want) {
			t.Errorf("%s: no %s in %s", id, want, body)
		}
	}
}

// An address alone is that of a caller, for rules that count by address.
func TestAnAddressAloneIsCounted(t *testing.T) {
	f := newFixture(t, "rules:\n  - {id: logins, by: [ip], limit: 5, window: 60}\n  - {id: users, by: [user], limit: 5, window: 60}\n  - {id: pairs, by: [ip, path], limit: 5, window: 60}\n")
	f.decide(rule.Map{"ip": "192.0.2.1", "path": "/"}, 2)
	got := f.want(200, "POST", "/v1/peek", `{"key":"192.0.2.1","rule":"*"}`)
	if !strings.Contains(got.body, `"rule":"logins"`) || !strings.Contains(got.body, `"remaining":3,`) || strings.Contains(got.body, "users") || strings.Contains(got.body, "pairs") {
		t.Error(got.body)
	}
	f.want(200, "POST", "/v1/reset", `{"key":"192.0.2.1","rule":"*"}`)
	if got := f.want(200, "POST", "/v1/peek", `{"key":"192.0.2.1","rule":"*"}`); !strings.Contains(got.body, `"remaining":5,`) {
		t.Error(got.body)
	}
	for body, want := range map[string]string{
		`{"key":"k","rule":"*"}`:                 "no rule counts by an API key alone: rules count by ip, by user, by ip and path (give the attributes",
		`{"attributes":{"path":"/"},"rule":"*"}`: "no rule counts by these attributes alone: rules count by ip, by user",
	} {
		if got := f.want(400, "POST", "/v1/peek", body); !strings.Contains(got.body, want) {
			t.Errorf("%s: %s", body, got.body)
		}
	}
	f = newFixture(t, "rules: []\n")
	if got := f.want(400, "POST", "/v1/peek", `{"key":"192.0.2.1","rule":"*"}`); !strings.Contains(got.body, "no rule is in force") {
		t.Error(got.body)
	}
}

func TestBadKeyRequestsSayWhatIsWrong(t *testing.T) {
	f := newFixture(t, shop+"  - {id: log, limit: 5, window: 60, algorithm: sliding_window_log}\n  - {id: two, by: [api_key, path], limit: 1/s}\n")
	for body, want := range map[string]string{
		`{"key":"k","rule":"none","units":1}`:                 "is not in the rules",
		`{"key":"k","rule":"log","units":1}`:                  "temporary override",
		`{"key":"k","rule":"two","units":1}`:                  "counts by api_key, path",
		`{"key":"k","rule":"orders"}`:                         "units: is missing",
		`{"key":"k","rule":"orders","units":-1}`:              "not a whole number",
		`{"rule":"orders","units":1}`:                         "key: is empty",
		`{"key":"k","units":1}`:                               "limit: is missing",
		`{"key":"k","rule":"orders","limit":"1/s","units":1}`: "give either limit or rule",
		`{"key":"k","keys":"k","units":1}`:                    "did you mean key?",
		`{"key":"k","key":"k"}`:                               "is given twice",
		`[]`:                                                  "a JSON object is expected",
		`{"key":"k"}{}`:                                       "has text after the JSON object",
		`{"key":`:                                             "is not JSON",
		`{"attributes":{"ip":"x"},"rule":"logins","units":1}`: "is not an address",
	} {
		if got := f.do("POST", "/v1/grant", body); got.status != 400 && got.status != 404 || !strings.Contains(got.body, want) {
			t.Errorf("%s: status %d, %s, want %s", body, got.status, got.body, want)
		}
	}
}

func TestEndsLieAheadAndAreRoundedUp(t *testing.T) {
	f := newFixture(t, shop)
	f.time = start.Add(600 * time.Millisecond)
	for given, want := range map[string]string{
		`"for":"0s"`:                         "must be in the future",
		`"for":"-1ms"`:                       "must be in the future",
		`"for":"4000d"`:                      "must be in the future, at most 10 years",
		`"for":"99999999999d"`:               "must be in the future, at most 10 years",
		`"until":"2026-03-01T12:00:00.600Z"`: "must be in the future",
	} {
		if got := f.want(400, "POST", "/v1/ban", `{"key":"k",`+given+`}`); !strings.Contains(got.body, want) {
			t.Errorf("%s: %s", given, got.body)
		}
	}
	for given, want := range map[string]string{
		`"for":"1ms"`:                        "12:00:01Z",
		`"for":"400ms"`:                      "12:00:01Z",
		`"for":"1s"`:                         "12:00:02Z",
		`"until":"2026-03-01T12:00:00.601Z"`: "12:00:01Z",
		`"until":"2026-03-01T12:00:03Z"`:     "12:00:03Z",
	} {
		f.want(200, "POST", "/v1/ban", `{"key":"k","reason":"`+strings.ReplaceAll(given, `"`, "")+`",`+given+`}`)
		f.wantText(`until: "2026-03-01T`+want+`"`, true)
	}
}

func TestAGrantIsMadeWholeOrNotAtAll(t *testing.T) {
	f := newFixture(t, "rules:\n  - {id: first, limit: 10, window: 1h}\n  - {id: log, algorithm: sliding_window_log, limit: 20, window: 1h}\n")
	f.decide(rule.Map{"api_key": "k"}, 8)
	if got := f.want(400, "POST", "/v1/grant", `{"key":"k","rule":"*","units":5}`); !strings.Contains(got.body, "name another rule") {
		t.Error(got.body)
	}
	if got := f.want(200, "POST", "/v1/peek", `{"key":"k","rule":"first"}`); !strings.Contains(got.body, `"remaining":2,`) {
		t.Errorf("part of a refused grant was made: %s", got.body)
	}
}

func TestHeadersAreNamedInAnyCase(t *testing.T) {
	f := newFixture(t, "rules:\n  - {id: teams, by: [header:X-Team], limit: 10, window: 1h}\n")
	f.decide(rule.Map{"header:x-team": "red"}, 8)
	for _, name := range []string{"header:X-Team", "header:x-team"} {
		if got := f.want(200, "POST", "/v1/peek", `{"attributes":{"`+name+`":"red"},"rule":"*"}`); !strings.Contains(got.body, `"remaining":2,`) {
			t.Errorf("%s: %s", name, got.body)
		}
	}
}

func TestAPeekShowsTheListOfAKey(t *testing.T) {
	f := newFixture(t, `
allow: ["sk_ours_*", "10.0.0.0/8"]
deny: ["sk_ours_7"]
rules:
  - {id: keys, limit: 10, window: 1h, deny: ["sk_bad"], allow: ["sk_good"]}
  - {id: addresses, by: [ip], limit: 10, window: 1h}
`)
	for who, want := range map[string]string{
		`"key":"sk_x","rule":"keys"`:                         "",
		`"key":"sk_ours_7","rule":"keys"`:                    "deny",
		`"key":"sk_ours_8","rule":"keys"`:                    "allow",
		`"key":"sk_bad","rule":"keys"`:                       "deny",
		`"key":"sk_good","rule":"keys"`:                      "allow",
		`"key":"10.1.2.3","rule":"addresses"`:                "allow",
		`"key":"192.0.2.1","rule":"addresses"`:               "",
		`"key":"sk_ours_7","limit":"5/m"`:                    "",
		`"attributes":{"api_key":"sk_ours_8"},"rule":"keys"`: "allow",
		`"attributes":{"ip":"10.1.2.3"},"rule":"addresses"`:  "allow",
		`"attributes":{"ip":"192.0.2.1"},"rule":"addresses"`: "",
	} {
		limit := f.want(200, "POST", "/v1/peek", "{"+who+"}").at(t, "limits").([]any)[0].(map[string]any)
		if got, _ := limit["listed"].(string); got != want {
			t.Errorf("%s: on the list %q, want %q", who, got, want)
		}
	}
}

func TestABanEndsByItself(t *testing.T) {
	f := newFixture(t, shop)
	f.want(200, "POST", "/v1/ban", `{"key":"sk_live_customer","for":"1h","reason":"tried passwords"}`, "X-Stint-Comment", "ticket 7")
	f.wantText("\ndeny:\n  - {match: sk_live_customer, until: \"2026-03-01T13:00:00Z\", reason: \"tried passwords\"}\n", true)
	when := func(at time.Time) rule.List { return f.decide2(at, "sk_live_customer").List }
	if when(start.Add(time.Hour-1)) != rule.ListDeny || when(start.Add(time.Hour)) != rule.ListNone {
		t.Error("it does not last an hour")
	}
	if got := f.want(200, "GET", "/lists", ""); !strings.Contains(got.body, `{"deny":true,"match":"sk_live_customer","until":"2026-03-01T13:00:00Z","reason":"tried passwords"}`) {
		t.Error(got.body)
	}
	f.time = start.Add(2 * time.Hour)
	if got := f.want(200, "GET", "/lists", ""); !strings.Contains(got.body, `"ended":true`) {
		t.Error(got.body)
	}
	f.want(200, "POST", "/v1/unban", `{"key":"sk_live_customer"}`)
	f.wantText("sk_live", false)
	f.want(404, "POST", "/v1/unban", `{"key":"sk_live_customer"}`)
	for body, want := range map[string]string{
		`{"key":"*"}`:              "would deny everyone",
		`{}`:                       "key: is missing",
		`{"key":"k","for":"-1h"}`:  "must be in the future",
		`{"key":"k","for":"soon"}`: "is not a duration",
		`{"key":"k","until":"2026-03-01T12:00:00"}`:  "is not a time",
		`{"key":"k","until":"2026-01-01T12:00:00Z"}`: "must be in the future",
	} {
		if got := f.do("POST", "/v1/ban", body); got.status != 400 || !strings.Contains(got.body, want) {
			t.Errorf("%s: status %d, %s, want %s", body, got.status, got.body, want)
		}
	}
}

// decide2 makes one check for each key in turn.
func (f *fixture) decide2(at time.Time, key string) rule.Outcome {
	f.t.Helper()
	set, _ := f.keeper.Current()
	o, err := set.Decide(f.t.Context(), f.store, timed{rule.Map{"api_key": key, "path": "/orders"}, at.UnixMicro()}, 0)
	if err != nil {
		f.t.Fatal(err)
	}
	return o
}

type timed struct {
	rule.Map

	t int64
}

func (t timed) At() int64 { return t.t }

func TestOverridesAndEntriesOfKeys(t *testing.T) {
	f := newFixture(t, shop)
	f.want(200, "PUT", "/rules/orders/override/sk_live_customer", `{"limit":20}`)
	f.want(200, "PUT", "/rules/orders/override/sk_live_customer?for=2h", `{"limit":40,"reason":"sale"}`)
	for at, want := range map[time.Time]int64{start: 40, start.Add(2 * time.Hour): 20} {
		if got := f.decide2(at, "sk_live_customer").Hits[0].Limit.Max(); got != want {
			t.Errorf("at %v the limit is %d, want %d", at, got, want)
		}
	}
	f.want(200, "DELETE", "/rules/orders/override/sk_live_customer?temporary=true", "")
	f.want(404, "DELETE", "/rules/orders/override/sk_live_customer?temporary=true", "")
	f.want(200, "DELETE", "/rules/orders/override/sk_live_customer", "")
	f.wantText("sk_live", false)
	f.want(200, "PUT", "/rules/logins/override/10.0.0.0/8", `"50/s"`)
	f.want(200, "PUT", "/rules/logins/override/10.1.0.0%2F16", `"60/s"`)
	f.wantText("      10.0.0.0/8: 50/s\n      10.1.0.0/16: 60/s\n", true)
	f.want(200, "PUT", "/lists/allow/10.9.0.0/16?rule=logins", `{"reason":"office"}`)
	f.wantText(`    allow:
      - {match: 10.9.0.0/16, reason: "office"}`, true)
	f.want(200, "DELETE", "/lists/allow/10.9.0.0/16?rule=logins", "")
	f.want(200, "PUT", "/lists/deny/192.0.2.7", "")
	f.wantText("deny:\n  - 192.0.2.7\n", true)
	f.want(400, "PUT", "/lists/deny/192.0.2.700", "")
}

// failingStore fails every claim after the first ones, and every group.
type failingStore struct {
	stint.Store

	first int // decided by the store
	err   error
}

func (s *failingStore) Take(ctx context.Context, c stint.Claim) (stint.Decision, error) {
	if s.first--; s.first >= 0 {
		return s.Store.Take(ctx, c)
	}
	return stint.Decision{}, s.err
}

func (s *failingStore) TakeGroups(context.Context, []stint.Group, []stint.Decision) error {
	return s.err
}

// An error of the store says whether a key may have been changed.
func TestErrorsOfTheStoreSayWhatWasDone(t *testing.T) {
	f := newFixture(t, "rules: [{id: orders, by: [api_key], limits: [{limit: 10/m}, {limit: 100/h}]}]\n")
	const key = `{"key":"k","rule":"orders"}`
	const grant = `{"key":"k","rule":"orders","units":1}`
	whole := f.Store
	for _, c := range []struct {
		code       stint.Code
		path, body string
		first      int
		unknown    any
	}{
		{stint.CodeTimeout, "/v1/reset", key, 0, true},
		{stint.CodeTimeout, "/v1/peek", key, 0, nil},
		{stint.CodeTimeout, "/v1/peek", key, 1, nil},
		{stint.CodeUnavailable, "/v1/reset", key, 0, nil},
		{stint.CodeUnavailable, "/v1/reset", key, 1, true}, // the state afterwards is not read
		{stint.CodeUnavailable, "/v1/reset", key, 2, true}, // the second limit is not reset
		{stint.CodeUnavailable, "/v1/grant", grant, 0, nil},
		{stint.CodeUnavailable, "/v1/grant", grant, 1, nil},
		{stint.CodeUnavailable, "/v1/grant", grant, 3, true}, // the second limit is not read
	} {
		f.Store = &failingStore{Store: whole, first: c.first, err: &stint.Error{Code: c.code, Problem: "the connection broke"}}
		if got := f.want(503, "POST", c.path, c.body); got.at(t, "error.unknown") != c.unknown || got.at(t, "error.code") != "STORE_UNAVAILABLE" {
			t.Errorf("%v: %s", c, got.body)
		}
	}
}

// An error of a store names it if the server has several.
func TestErrorsNameOneOfSeveralStores(t *testing.T) {
	const rules = `rules:
  - {id: orders, limit: 10/m, penalty: {after: 3, cool_down: 1h}}
  - {id: vouchers, limit: 10/m, store: critical}
`
	for _, c := range []struct {
		several          bool
		path, body, want string
	}{
		{true, "/v1/peek", `{"key":"k","rule":"vouchers"}`, "the store critical fails (down)"},
		{true, "/v1/peek", `{"key":"k","rule":"orders"}`, "the store default fails (down)"},
		{true, "/v1/peek", `{"key":"k","limit":"5/m"}`, "the store default fails (down)"},
		{true, "/v1/reset", `{"key":"k","rule":"vouchers"}`, "the store critical fails (down)"},
		{true, "/v1/grant", `{"key":"k","rule":"vouchers","units":1}`, "the store critical fails (down)"},
		{true, "/v1/unban", `{"key":"k"}`, "the store default fails (down)"},
		{false, "/v1/peek", `{"key":"k","rule":"vouchers"}`, "the store fails (down)"},
		{false, "/v1/unban", `{"key":"k"}`, "the store fails (down)"},
	} {
		f := newFixture(t, rules)
		f.NamedStores, f.Store = c.several, &failingStore{err: &stint.Error{Code: stint.CodeUnavailable, Kind: "down", Problem: "10.0.0.5 broke"}}
		if got := f.want(503, "POST", c.path, c.body); got.at(t, "error.message") != c.want {
			t.Errorf("%v: %s", c, got.body)
		}
		if name := "store critical: "; c.several && strings.Contains(c.want, "critical") && !strings.Contains(f.logs.String(), name) {
			t.Errorf("%v: %q is not in the log: %s", c, name, f.logs)
		}
	}
}

// A store that fails does not keep a key from being reset in the others.
func TestKeyIsResetInTheStoresThatWork(t *testing.T) {
	f := newFixture(t, `rules:
  - {id: first, limit: 10/m}
  - {id: vouchers, limits: [{limit: 10/m}, {limit: 20/h}], store: critical}
  - {id: last, limit: 10/m}
`)
	f.decide(rule.Map{"api_key": "k"}, 8)
	failing := &partlyFailing{Store: f.Store}
	f.NamedStores, f.Store = true, failing
	got := f.want(503, "POST", "/v1/reset", `{"key":"k","rule":"*"}`)
	if got.at(t, "error.message") != "the store critical fails (down)" || got.at(t, "error.unknown") != true || failing.failed != 1 {
		t.Errorf("%d calls of the store that fails: %s", failing.failed, got.body)
	}
	for _, id := range []string{"first", "last"} {
		if got := f.want(200, "POST", "/v1/peek", `{"key":"k","rule":"`+id+`"}`); !strings.Contains(got.body, `"remaining":10,`) {
			t.Errorf("%s: %s", id, got.body)
		}
	}
}

// partlyFailing fails the claims of the store critical.
type partlyFailing struct {
	stint.Store

	failed int
}

func (s *partlyFailing) Take(ctx context.Context, c stint.Claim) (stint.Decision, error) {
	if c.Limit.Store() == "" {
		return s.Store.Take(ctx, c)
	}
	s.failed++
	return stint.Decision{}, &stint.Error{Code: stint.CodeUnavailable, Kind: "down", Problem: "it broke"}
}

// Rules whose ids are also the names of endpoints are read like others.
func TestRulesNamedLikeEndpointsAreRead(t *testing.T) {
	f := newFixture(t, shop)
	for _, id := range []string{"history", "diff", "tier", "validate", "versions", "rollback", "override", "orders"} {
		put := f.want(200, "PUT", "/rules/"+id, `{"match":{"path":"/`+id+`"},"limit":"7/m"}`)
		got := f.want(200, "GET", "/rules/"+id+"/", "", "Accept", "text/yaml")
		if !strings.Contains(got.body, "id: "+id) || got.header.Get("ETag") != put.header.Get("ETag") {
			t.Errorf("%s: %s", id, got.body)
		}
		f.want(200, "DELETE", "/rules/"+id, "", "If-Match", got.header.Get("ETag"))
		f.want(404, "GET", "/rules/"+id+"/", "")
	}
}

// Clients remove the segments . and .. from the path of a URL, so such keys are in the query.
func TestKeysThatAreSegmentsOfAPath(t *testing.T) {
	f := newFixture(t, shop)
	for query, key := range map[string]string{".": ".", "..": "..", "a%2Fb%3F%23%25": "a/b?#%"} {
		f.want(200, "PUT", "/lists/deny/?match="+query, `{"for":"1h"}`)
		if got := f.want(200, "GET", "/lists", ""); !strings.Contains(got.body, `"match":"`+key+`"`) {
			t.Error(got.body)
		}
		f.want(200, "DELETE", "/lists/deny/?match="+query, "")
		if got := f.want(200, "GET", "/lists", ""); got.body != `{"entries":[]}`+"\n" {
			t.Error(got.body)
		}
		f.want(200, "PUT", "/rules/orders/override/?key="+query, `{"limit":70}`)
		if got := f.decide2(start, key).Hits[0].Limit.Max(); got != 70 {
			t.Errorf("%s: the limit is %d", key, got)
		}
		f.want(200, "DELETE", "/rules/orders/override/?key="+query, "")
		f.wantText("70", false)
	}
	for _, path := range []string{"/lists/deny/", "/lists/deny/?match=", "/lists/deny/a?match=b", "/rules/orders/override/", "/rules/orders/override/a?key=b"} {
		f.want(400, "PUT", path, `{"limit":70}`)
		f.want(400, "DELETE", path, "")
	}
}
