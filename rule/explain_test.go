package rule_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/rule"
)

const explainedRules = `
deny: [10.6.6.0/24]
allow: [sk_internal]
tiers:
  pro: {api_key_pattern: "pro_*", limit: 1000, window: 60}
defaults: {limit: 5, window: 1s}
rules:
  - id: orders
    match: {path_prefix: /v1/, methods: [POST], headers: {x-plan: "g*"}}
    by: [api_key]
    override: {pro_vip: {capacity: 4000}}
  - id: office
    match: {cidr: [10.0.0.0/8]}
    by: [user]
    missing: deny
    deny: ["pro_bad"]
    limit: 3
    window: 1m
  - {id: off, mode: off, limit: 1, window: 1s}
  - {id: pro-only, tier: pro, mode: shadow, by: [ip], cost: bytes}
  - {id: users, match: {host: "*.example.com", endpoint_regex: "^/v[12]/"}, by: [user, ip], missing: skip, combine: any, limits: [{limit: 1, window: 1s}, {limit: 9, window: 1h}], allow: ["pro_*"]}
  - {id: closed, match: {path: /closed}, deny_all: true}
`

func explainedSet(t *testing.T) *rule.Set {
	t.Helper()
	set, err := rule.Parse(rule.File{Name: "rules.yaml", Data: []byte(explainedRules)})
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// describe returns the fields of an explanation that its tests compare.
func describe(x *rule.Explained) string {
	var b strings.Builder
	fmt.Fprintf(&b, "matches %t", x.Matches)
	for _, c := range x.Conditions {
		fmt.Fprintf(&b, "; %s %s with %s %t", c.Name, c.Want, c.Got, c.Holds)
	}
	if x.Uncounted != "" {
		fmt.Fprintf(&b, "; uncounted: %s, denies %t", x.Uncounted, x.Denies)
	}
	if x.Key != "" {
		fmt.Fprintf(&b, "; key %s, cost %d, tier %q, override %q, source %s, limits %v", rule.KeyText(x.Key), x.Cost, x.Tier, x.Override, x.Source, x.Limits)
	}
	return b.String()
}

func TestExplanationsNameConditionsAndSources(t *testing.T) {
	set := explainedSet(t)
	for _, test := range []struct {
		name, rule string
		a          rule.Map
		want       string
	}{
		{"overrideOverTier", "orders", rule.Map{"api_key": "pro_vip", "path": "/v1/x", "method": "post", "header:x-plan": "gold"},
			`matches true; methods POST with POST true; path_prefix /v1/ with /v1/x true; header:x-plan g* with gold true; key pro_vip, cost 1, tier "pro", override "pro_vip", source tier, limits [token_bucket:1m 1000 per 1m, capacity 4000]`},
		{"defaults", "orders", rule.Map{"api_key": "k", "path": "/v1/x", "method": "POST", "header:x-plan": "g"},
			`matches true; methods POST with POST true; path_prefix /v1/ with /v1/x true; header:x-plan g* with g true; key k, cost 1, tier "", override "", source defaults, limits [token_bucket:1s 5 per 1s, capacity 5]`},
		{"firstConditionThatFails", "orders", rule.Map{"method": "GET", "path": "/v2"}, `matches false; methods POST with GET false`},
		{"absentAttribute", "orders", rule.Map{"method": "POST", "path": "/v1/"}, `matches false; methods POST with POST true; path_prefix /v1/ with /v1 true; header:x-plan g* with  false`},
		{"missingDenies", "office", rule.Map{"ip": "10.0.0.1"}, `matches true; cidr 10.0.0.0/8 with 10.0.0.1 true; uncounted: the request has no user, and missing is deny, denies true`},
		{"denyListOfTheRule", "office", rule.Map{"ip": "10.0.0.1", "api_key": "pro_bad"}, `matches true; cidr 10.0.0.0/8 with 10.0.0.1 true; uncounted: the request is on the deny list of the rule, denies true`},
		{"off", "off", rule.Map{}, `matches false`},
		{"costOfAnAttribute", "pro-only", rule.Map{"api_key": "pro_1", "ip": "192.0.2.1", "bytes": "17"}, `matches true; tier pro with pro true; key 192.0.2.1, cost 17, tier "pro", override "", source tier, limits [token_bucket:1m 1000 per 1m, capacity 1000]`},
		{"missingSkips", "users", rule.Map{"host": "a.example.com", "path": "/v1/x", "ip": "192.0.2.1"}, `matches true; host *.example.com with a.example.com true; endpoint_regex ^/v[12]/ with /v1/x true; uncounted: the request has no user, and missing is skip, denies false`},
		{"allowListOfTheRule", "users", rule.Map{"host": "a.example.com", "path": "/v1/x", "ip": "192.0.2.1", "user": "u", "api_key": "pro_1"},
			`matches true; host *.example.com with a.example.com true; endpoint_regex ^/v[12]/ with /v1/x true; uncounted: the request is on the allow list of the rule, denies false; key u|192.0.2.1, cost 1, tier "", override "", source rule, limits [token_bucket:1s 1 per 1s, capacity 1 token_bucket:1h 9 per 1h, capacity 9]`},
		{"deniesAll", "closed", rule.Map{"path": "/closed", "ip": "192.0.2.1"}, `matches true; path /closed with /closed true; uncounted: the rule denies everything, denies true; key 192.0.2.1, cost 1, tier "", override "", source rule, limits [deny_all 1 per 1ms]`},
	} {
		t.Run(test.name, func(t *testing.T) {
			e, err := set.Explain(test.a, 1)
			if err != nil {
				t.Fatal(err)
			}
			i := slices.IndexFunc(e.Rules, func(x rule.Explained) bool { return x.Rule.ID == test.rule })
			if got := describe(&e.Rules[i]); got != test.want {
				t.Errorf("got\n%s\nwant\n%s", got, test.want)
			}
		})
	}
}

// Whatever the request, an explanation names the claims that a decision makes.
func TestExplanationsAgreeWithDecisions(t *testing.T) {
	set := explainedSet(t)
	values := map[string][]string{
		"api_key": {"", "k", "pro_vip", "pro_bad", "sk_internal"}, "ip": {"", "10.6.6.1", "10.0.0.1", "192.0.2.1", "bad"},
		"path": {"", "/v1/x", "/v2/x", "/closed"}, "method": {"", "POST", "GET"}, "host": {"", "a.example.com", "example.com"},
		"header:x-plan": {"", "gold", "silver"}, "user": {"", "u"}, "bytes": {"", "17", "many"},
	}
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	for range 3000 {
		a := rule.Map{}
		for name, list := range values {
			a[name] = list[random.IntN(len(list))]
		}
		store := stint.NewMemory(stint.MemoryOptions{})
		o, decided := set.Decide(t.Context(), store, a, 1)
		e, err := set.Explain(a, 1)
		if (err == nil) != (decided == nil) {
			t.Fatalf("seed %d, %v: explained with %v, decided with %v", seed, a, err, decided)
		}
		if err != nil {
			continue
		}
		var want, got []string
		for i := range o.Hits {
			h := &o.Hits[i]
			want = append(want, h.Rule.ID+" "+h.Key+" "+h.Limit.String())
		}
		denied := slices.ContainsFunc(e.Rules, func(x rule.Explained) bool { return x.Denies && x.Rule.Mode == rule.Enforce })
		for i := range e.Rules {
			x := &e.Rules[i]
			switch {
			case e.List != rule.ListNone || !x.Matches || x.Uncounted != "" && !x.Denies || denied && !x.Denies:
			case x.Denies:
				got = append(got, x.Rule.ID+" "+x.Key+" "+x.Limits[0].String())
			default:
				for _, l := range x.Limits {
					got = append(got, x.Rule.ID+" "+x.Key+" "+l.String())
				}
			}
		}
		slices.Sort(want)
		slices.Sort(got)
		if e.List != o.List || !slices.Equal(got, want) {
			t.Fatalf("seed %d, %v: list %v, %v\nexplained %q\ndecided   %q", seed, a, e.List, o.List, got, want)
		}
	}
}
