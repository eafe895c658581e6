package rule

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stintdev/stint"
)

// newStore returns a memory store whose clock is now.
func newStore(t *testing.T, now *int64) stint.Store {
	t.Helper()
	m := stint.NewMemory(stint.MemoryOptions{MaxKeys: 1000, Clock: func() time.Time { return time.UnixMicro(*now) }})
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

// summary returns an outcome in one line: the list or the binding claim, then
// every hit.
func summary(o *Outcome) string {
	var b strings.Builder
	switch {
	case o.List == ListAllow:
		b.WriteString("allow list")
	case o.List == ListDeny:
		b.WriteString("deny list")
	case o.Decision.Allowed:
		b.WriteString("allowed")
	default:
		b.WriteString("denied")
	}
	if o.Binding >= 0 {
		fmt.Fprintf(&b, " by %d", o.Binding)
	}
	for _, h := range o.Hits {
		fmt.Fprintf(&b, "; %s %s %q %s", h.Rule.ID, h.Limit.Name(), h.Key, verdictOf(h))
	}
	return b.String()
}

func verdictOf(h Hit) string {
	text := fmt.Sprintf("%d/%d", h.Decision.Remaining, h.Decision.Limit)
	switch {
	case h.Decision.RetryAfter == stint.Never:
		text += " never"
	case !h.Decision.Allowed:
		text += " denied"
	}
	if h.Shadow {
		text += " shadow"
	}
	return text
}

// step is one request and the expected decision.
type step struct {
	attributes Map
	cost       int64
	want       string
}

// decideSteps decides the steps in order with one store.
func decideSteps(t *testing.T, rules string, steps []step) {
	t.Helper()
	s := mustParse(t, rules)
	now := int64(1_700_000_000_000_000)
	store := newStore(t, &now)
	var o Outcome
	for i, step := range steps {
		if err := s.DecideInto(t.Context(), store, step.attributes, step.cost, &o); err != nil {
			t.Fatalf("step %d: %v", i, err)
		}
		if got := summary(&o); got != step.want {
			t.Errorf("step %d: %v\n got %s\nwant %s", i, step.attributes, got, step.want)
		}
	}
}

func TestDecide(t *testing.T) {
	a, b := Map{"api_key": "a", "ip": "192.0.2.1"}, Map{"api_key": "b", "ip": "192.0.2.1"}
	for _, c := range []struct {
		fact  string
		rules string
		steps []step
	}{
		{"no rule lets through and says nothing", `rules: []`, []step{{a, 1, "allowed"}}},
		{"the limit is the last that is allowed", `rules: [{id: r, limit: 2/m}]`, []step{
			{a, 1, `allowed by 0; r token_bucket:1m "a" 1/2`},
			{a, 1, `allowed by 0; r token_bucket:1m "a" 0/2`},
			{a, 1, `denied by 0; r token_bucket:1m "a" 0/2 denied`},
			{b, 1, `allowed by 0; r token_bucket:1m "b" 1/2`},
		}},
		{"cost 0 peeks", `rules: [{id: r, limit: 2/m}]`, []step{
			{a, 0, `allowed by 0; r token_bucket:1m "a" 2/2`},
			{a, 2, `allowed by 0; r token_bucket:1m "a" 0/2`},
			{a, 0, `allowed by 0; r token_bucket:1m "a" 0/2`},
			{a, 3, `denied by 0; r token_bucket:1m "a" 0/2 never`},
		}},
		{"all rules that match are one group, charged or not",
			`rules: [{id: key, limit: 5/m}, {id: ip, by: [ip], limit: 3/m}]`, []step{
				{a, 1, `allowed by 1; key token_bucket:1m "a" 4/5; ip token_bucket:1m "192.0.2.1" 2/3`},
				{b, 2, `allowed by 1; key token_bucket:1m "b" 3/5; ip token_bucket:1m "192.0.2.1" 0/3`},
				{b, 1, `denied by 1; key token_bucket:1m "b" 3/5; ip token_bucket:1m "192.0.2.1" 0/3 denied`},
				{a, 1, `denied by 1; key token_bucket:1m "a" 4/5; ip token_bucket:1m "192.0.2.1" 0/3 denied`},
			}},
		{"several limits of a rule are one group", `rules: [{id: r, limits: [2/s, 3/h]}]`, []step{
			{a, 2, `allowed by 0; r token_bucket:1s "a" 0/2; r token_bucket:1h "a" 1/3`},
			{a, 1, `denied by 0; r token_bucket:1s "a" 0/2 denied; r token_bucket:1h "a" 1/3`},
		}},
		{"combine any admits while one of them does", `rules: [{id: r, limits: [1/m, 2/h], combine: any}]`, []step{
			{a, 1, `allowed by 1; r token_bucket:1m "a" 0/1; r token_bucket:1h "a" 1/2`},
			{a, 1, `allowed by 1; r token_bucket:1m "a" 0/1 denied; r token_bucket:1h "a" 0/2`},
			{a, 1, `denied by 0; r token_bucket:1m "a" 0/1 denied; r token_bucket:1h "a" 0/2 denied`},
		}},
		{"two rules of alternatives are two sets",
			`rules: [{id: r, limits: [1/m, 2/h], combine: any}, {id: s, limits: [1/m, 3/h], combine: any}]`, []step{
				{a, 2, `allowed by 1; r token_bucket:1m "a" 1/1 never; r token_bucket:1h "a" 0/2; s token_bucket:1m "a" 1/1 never; s token_bucket:1h "a" 1/3`},
				{a, 1, `allowed by 0; r token_bucket:1m "a" 0/1; r token_bucket:1h "a" 0/2 denied; s token_bucket:1m "a" 0/1; s token_bucket:1h "a" 0/3`},
				{a, 1, `denied by 0; r token_bucket:1m "a" 0/1 denied; r token_bucket:1h "a" 0/2 denied; s token_bucket:1m "a" 0/1 denied; s token_bucket:1h "a" 0/3 denied`},
			}},
		{"a shadow rule counts and never denies",
			`rules: [{id: s, limit: 1/m, mode: shadow}, {id: r, limit: 2/m}]`, []step{
				{a, 1, `allowed by 0; r token_bucket:1m "a" 1/2; s token_bucket:1m "a" 0/1 shadow`},
				{a, 1, `allowed by 0; r token_bucket:1m "a" 0/2; s token_bucket:1m "a" 0/1 denied shadow`},
				{a, 1, `denied by 0; r token_bucket:1m "a" 0/2 denied; s token_bucket:1m "a" 0/1 denied shadow`},
			}},
		{"a shadow rule alone lets through", `rules: [{id: s, limit: 1/m, mode: shadow}, {id: s2, limits: [3/m, 1/h], mode: shadow}]`, []step{
			{a, 1, `allowed; s token_bucket:1m "a" 0/1 shadow; s2 token_bucket:1m "a" 2/3 shadow; s2 token_bucket:1h "a" 0/1 shadow`},
			{a, 1, `allowed; s token_bucket:1m "a" 0/1 denied shadow; s2 token_bucket:1m "a" 2/3 shadow; s2 token_bucket:1h "a" 0/1 denied shadow`},
		}},
		{"shadow rules are decided each by itself", `rules: [{id: s, limit: 1/m, mode: shadow}, {id: t, limit: 9/m, mode: shadow}]`, []step{
			{a, 1, `allowed; s token_bucket:1m "a" 0/1 shadow; t token_bucket:1m "a" 8/9 shadow`},
			{a, 1, `allowed; s token_bucket:1m "a" 0/1 denied shadow; t token_bucket:1m "a" 7/9 shadow`},
		}},
		{"a rule that is off does not apply", `rules: [{id: r, limit: 1/m, mode: off}]`, []step{{a, 1, "allowed"}}},
		{"deny_all denies what matches, and asks no store",
			`rules: [{id: no, match: {path: /old}, deny_all: true}, {id: r, limit: 2/m}]`, []step{
				{Map{"api_key": "a", "path": "/old/"}, 1, `denied by 0; no deny_all "a" 0/0 never`},
				{Map{"api_key": "a", "path": "/new"}, 1, `allowed by 0; r token_bucket:1m "a" 1/2`},
			}},
		{"what denies by itself is the whole answer, whatever matched before",
			`rules: [{id: r, limit: 2/m}, {id: no, match: {path: /old}, deny_all: true}, {id: s, limit: 2/m}, {id: t, limit: 2/m, mode: shadow}]`, []step{
				{Map{"api_key": "a", "path": "/old"}, 1, `denied by 0; no deny_all "a" 0/0 never`},
				{Map{"api_key": "a", "path": "/new"}, 2, `allowed by 0; r token_bucket:1m "a" 0/2; s token_bucket:1m "a" 0/2; t token_bucket:1m "a" 0/2 shadow`},
			}},
		{"a shadow deny_all only shows", `rules: [{id: no, deny_all: true, mode: shadow}, {id: r, limit: 2/m}]`, []step{
			{a, 1, `allowed by 0; r token_bucket:1m "a" 1/2; no deny_all "a" 0/0 never shadow`},
		}},
		{"lists: deny beats allow, both beat rules",
			"rules: [{id: r, limit: 1/m}]\nallow: [\"a*\", 198.51.100.0/24]\ndeny: [\"ab*\", 2001:db8::/32]", []step{
				{Map{"api_key": "ax"}, 1, "allow list"},
				{Map{"api_key": "abx"}, 1, "deny list"},
				{Map{"api_key": "c", "ip": "198.51.100.7"}, 1, "allow list"},
				{Map{"api_key": "a", "ip": "2001:db8::1"}, 1, "deny list"},
				{Map{"api_key": "c", "ip": "::ffff:198.51.100.7"}, 1, "allow list"},
				{Map{"api_key": "c"}, 1, `allowed by 0; r token_bucket:1m "c" 0/1`},
			}},
		{"a rule's own lists are about what it matches",
			`rules: [{id: r, match: {path: /x}, limit: 1/m, allow: [free], deny: [bad]}, {id: s, limit: 9/m}]`, []step{
				{Map{"api_key": "bad", "path": "/x"}, 1, "deny list"},
				{Map{"api_key": "bad", "path": "/y"}, 1, `allowed by 0; s token_bucket:1m "bad" 8/9`},
				{Map{"api_key": "free", "path": "/x"}, 1, `allowed by 0; s token_bucket:1m "free" 8/9`},
			}},
		{"a rule's deny list beats the allow list of all", "rules: [{id: r, limit: 1/m, deny: [bad]}]\nallow: [\"b*\"]", []step{
			{Map{"api_key": "bad"}, 1, "deny list"}, {Map{"api_key": "bat"}, 1, "allow list"},
		}},
		{"a rule's cost comes before the request's", `rules: [{id: r, limit: 9/m, cost: 2}, {id: s, limit: 9/m, cost: tokens}, {id: t, limit: 9/m}]`, []step{
			{Map{"api_key": "a", "tokens": "4"}, 3, `allowed by 1; r token_bucket:1m "a" 7/9; s token_bucket:1m "a" 5/9; t token_bucket:1m "a" 6/9`},
			{Map{"api_key": "b"}, 3, `allowed by 2; r token_bucket:1m "b" 7/9; s token_bucket:1m "b" 8/9; t token_bucket:1m "b" 6/9`},
			{Map{"api_key": "c", "tokens": "0"}, 1, `allowed by 0; r token_bucket:1m "c" 7/9; s token_bucket:1m "c" 9/9; t token_bucket:1m "c" 8/9`},
			{Map{"api_key": "d", "tokens": "4"}, 0, `allowed by 0; r token_bucket:1m "d" 9/9; s token_bucket:1m "d" 9/9; t token_bucket:1m "d" 9/9`},
		}},
		{"an override is for a key, a glob or a network, the most specific first",
			`rules: [{id: r, limit: 1/m, override: {"sk_*": 2/m, "sk_vip_*": 3/m, sk_vip_1: 4/m, 10.0.0.0/8: 5/m, 10.1.0.0/16: 6/m}}]`, []step{
				{Map{"api_key": "x"}, 1, `allowed by 0; r token_bucket:1m "x" 0/1`},
				{Map{"api_key": "sk_1"}, 1, `allowed by 0; r token_bucket:1m "sk_1" 1/2`},
				{Map{"api_key": "sk_vip_2"}, 1, `allowed by 0; r token_bucket:1m "sk_vip_2" 2/3`},
				{Map{"api_key": "sk_vip_1", "ip": "10.1.2.3"}, 1, `allowed by 0; r token_bucket:1m "sk_vip_1" 3/4`},
				{Map{"api_key": "y", "ip": "10.2.2.3"}, 1, `allowed by 0; r token_bucket:1m "y" 4/5`},
				{Map{"api_key": "z", "ip": "10.1.2.3"}, 1, `allowed by 0; r token_bucket:1m "z" 5/6`},
			}},
		{"the pattern that fixes most is the most specific, wherever it stands",
			`rules: [{id: r, limit: 1/m, override: {"*_vip_long": 2/m, "sk*": 3/m}}, {id: s, limit: 1/m, override: {"sk*": 3/m, "*_vip_long": 2/m}}]`, []step{
				{Map{"api_key": "sk_vip_long"}, 1, `allowed by 0; r token_bucket:1m "sk_vip_long" 1/2; s token_bucket:1m "sk_vip_long" 1/2`},
				{Map{"api_key": "sk_1"}, 1, `allowed by 0; r token_bucket:1m "sk_1" 2/3; s token_bucket:1m "sk_1" 2/3`},
			}},
		{"of patterns that fix as much, the first counts",
			`rules: [{id: r, limit: 1/m, override: {"*1": 2/m, "a*": 3/m}}, {id: s, limit: 1/m, override: {"a*": 3/m, "*1": 2/m}}]`, []step{
				{Map{"api_key": "a1"}, 1, `allowed by 0; r token_bucket:1m "a1" 1/2; s token_bucket:1m "a1" 2/3`},
			}},
		{"an override may count otherwise", `rules: [{id: r, capacity: 8, refill_rate: 1, override: {x: {algorithm: fixed_window, limit: 5, window: 1h}}}]`, []step{
			{Map{"api_key": "x"}, 1, `allowed by 0; r fixed_window:1h "x" 4/5`},
			{Map{"api_key": "y"}, 1, `allowed by 0; r token_bucket "y" 7/8`},
		}},
		{"an override may be for another identity", `rules: [{id: r, by: [tenant], limit: 1/m, override: {acme: 2/m, "u*": 3/m}}]`, []step{
			{Map{"tenant": "acme"}, 1, `allowed by 0; r token_bucket:1m "acme" 1/2`},
			{Map{"tenant": "umbrella"}, 1, `allowed by 0; r token_bucket:1m "umbrella" 2/3`},
			{Map{"tenant": "other"}, 1, `allowed by 0; r token_bucket:1m "other" 0/1`},
		}},
	} {
		t.Run(c.fact, func(t *testing.T) { decideSteps(t, c.rules, c.steps) })
	}
}

func TestTiers(t *testing.T) {
	tiers := "tiers:\n  free: {api_key_pattern: \"sk_*\", limit: 1/m}\n  pro: {api_key_pattern: \"sk_pro_*\", limit: 2/m, capacity: 20}\n  plain: {api_key_pattern: \"p_*\"}\n"
	free, pro, none := Map{"api_key": "sk_1"}, Map{"api_key": "sk_pro_1"}, Map{"api_key": "x"}
	for _, c := range []struct {
		fact  string
		rules string
		steps []step
	}{
		{"a rule without numbers takes those of the request's tier", `rules: [{id: r}]`, []step{
			{free, 1, `allowed by 0; r token_bucket:1m "sk_1" 0/1`},
			{pro, 1, `allowed by 0; r token_bucket:1m "sk_pro_1" 19/20`},
			{none, 1, `allowed`},
			{Map{"api_key": "p_1"}, 1, `allowed`},
		}},
		{"defaults are for requests of no tier", "defaults: {limit: 7/m}\nrules: [{id: r}]", []step{
			{none, 1, `allowed by 0; r token_bucket:1m "x" 6/7`},
			{Map{"api_key": "p_1"}, 1, `allowed by 0; r token_bucket:1m "p_1" 6/7`},
			{free, 1, `allowed by 0; r token_bucket:1m "sk_1" 0/1`},
		}},
		{"the attribute tier comes before the pattern", `rules: [{id: r}]`, []step{
			{Map{"api_key": "sk_1", "tier": "pro"}, 1, `allowed by 0; r token_bucket:1m "sk_1" 19/20`},
			{Map{"api_key": "x", "tier": "free"}, 1, `allowed by 0; r token_bucket:1m "x" 0/1`},
			{Map{"api_key": "sk_2", "tier": "unheard-of"}, 1, `allowed by 0; r token_bucket:1m "sk_2" 0/1`},
		}},
		{"a rule of a tier is for it alone and takes what it lacks", `rules: [{id: r, tier: pro}, {id: own, tier: pro, limit: 9/m}, {id: all, tier: free, limit: 5/m, burst: 6}]`, []step{
			{pro, 1, `allowed by 0; r token_bucket:1m "sk_pro_1" 19/20; own token_bucket:1m "sk_pro_1" 19/20`},
			{free, 1, `allowed by 0; all token_bucket:1m "sk_1" 5/6`},
			{none, 1, `allowed`},
		}},
		{"a rule with a rate of its own takes nothing of the request's tier", `rules: [{id: r, limit: 9/m}]`, []step{
			{pro, 1, `allowed by 0; r token_bucket:1m "sk_pro_1" 8/9`},
		}},
		{"an undeclared tier is a label", `rules: [{id: r, tier: gold, limit: 9/m}]`, []step{
			{none, 1, `allowed by 0; r token_bucket:1m "x" 8/9`},
		}},
		{"an override comes before the tier", `rules: [{id: r, override: {sk_1: {capacity: 5}, x: 3/m}}]`, []step{
			{free, 1, `allowed by 0; r token_bucket:1m "sk_1" 4/5`},
			{none, 1, `allowed by 0; r token_bucket:1m "x" 2/3`},
		}},
	} {
		t.Run(c.fact, func(t *testing.T) { decideSteps(t, tiers+c.rules, c.steps) })
	}
}

func TestOverridesNameKeysThatWereBrought(t *testing.T) {
	rules := `rules: [{id: r, limit: 5/m, override: {"*": 9/m, 192.0.2.0/24: 7/m}, temporary: [{match: "?*", until: 2199-01-01T00:00:00Z, limit: 8/m}]}]`
	decideSteps(t, rules, []step{
		{Map{"api_key": "a"}, 1, `allowed by 0; r token_bucket:1m "a" 7/8`},
		{Map{"ip": "10.0.0.1"}, 1, `allowed by 0; r token_bucket:1m "\x0110.0.0.1" 4/5`},
		{Map{"ip": "192.0.2.1"}, 1, `allowed by 0; r token_bucket:1m "\x01192.0.2.1" 6/7`},
		{Map{}, 1, `allowed by 0; r token_bucket:1m "\x02shared" 4/5`},
	})
}

func TestInvalidRequestsAreRefused(t *testing.T) {
	rules := `rules: [{id: r, limit: 10/s, by: [user, ip], cost: tokens}]`
	for _, c := range []struct {
		fact       string
		attributes Map
		cost       int64
		want       string
	}{
		{"a negative cost", Map{}, -1, "cost: -1 is out of range"},
		{"a huge cost", Map{}, stint.MaxCost + 1, "cost: 1000000001 is out of range"},
		{"an address that is none", Map{"ip": "10.0.0.1:80", "user": "u"}, 1, `ip: "10.0.0.1:80" is not an address`},
		{"a control character", Map{"ip": "::1", "user": "a\x01b"}, 1, "user: has the control character U+0001"},
		{"a key of 1 MB", Map{"ip": "::1", "user": strings.Repeat("x", 1<<20)}, 1, "user: is 1048576 bytes long"},
		{"a key that is not UTF-8", Map{"ip": "::1", "user": "\xff"}, 1, "user: is not valid UTF-8"},
		{"a fractional cost", Map{"ip": "::1", "user": "u", "tokens": "1.5"}, 1, "tokens: 1.5 is not whole"},
		{"a negative cost of an attribute", Map{"ip": "::1", "user": "u", "tokens": "-1"}, 1, "tokens: -1 is out of range"},
		{"a cost of 2^63", Map{"ip": "::1", "user": "u", "tokens": "9223372036854775808"}, 1, "tokens: 9223372036854775808 is out of range"},
		{"a cost that is no number", Map{"ip": "::1", "user": "u", "tokens": "NaN"}, 1, `tokens: "NaN" is not a number`},
	} {
		t.Run(c.fact, func(t *testing.T) {
			for _, mode := range []string{"enforce", "shadow"} {
				s := mustParse(t, strings.Replace(rules, "id: r", "id: r, mode: "+mode, 1))
				now := int64(0)
				_, err := s.Decide(t.Context(), newStore(t, &now), c.attributes, c.cost)
				if mode == "shadow" && strings.HasPrefix(c.want, "cost") == (err == nil) {
					t.Errorf("shadow: %v", err)
				}
				if mode == "shadow" {
					continue
				}
				var e *stint.Error
				if !errors.As(err, &e) || e.Code != stint.CodeInvalid || !strings.Contains(err.Error(), c.want) {
					t.Errorf("got %v, want %s", err, c.want)
				}
			}
		})
	}
}

func TestManyAtOnceAreAdmittedToTheLimit(t *testing.T) {
	s := mustParse(t, `rules: [{id: r, limits: [100/h, 1000/d]}, {id: s, limit: 50/h, mode: shadow}]`)
	now := int64(1_700_000_000_000_000)
	store := newStore(t, &now)
	var admitted atomic.Int64
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			var o Outcome
			for range 50 {
				if err := s.DecideInto(t.Context(), store, Map{"api_key": "a"}, 1, &o); err != nil || len(o.Hits) != 3 {
					t.Errorf("%+v, %v", o, err)
				}
				if o.Allowed() {
					admitted.Add(1)
				}
			}
		})
	}
	all.Wait()
	if n := admitted.Load(); n != 100 {
		t.Errorf("%d admitted", n)
	}
}

func TestDecideIntoDoesNotAllocate(t *testing.T) {
	if raceDetector {
		t.Skip("pools forget at random")
	}
	s, err := Parse(manyRules(100))
	if err != nil {
		t.Fatal(err)
	}
	now := int64(1_700_000_000_000_000)
	store := newStore(t, &now)
	a := Map{"api_key": "tenant_53_x", "method": "GET", "path": "/v1/resource50", "host": "h9.example.com", "ip": "10.1.2.3"}
	var o Outcome
	allocs := testing.AllocsPerRun(1000, func() {
		if err := s.DecideInto(context.Background(), store, a, 1, &o); err != nil || len(o.Hits) != 3 {
			t.Fatalf("%+v, %v", o, err)
		}
	})
	if allocs >= 1 { // the garbage collector may empty a pool in between
		t.Errorf("%v allocations", allocs)
	}
}

// A denied request is reported as unavailable if an enforced rule fails closed and the
// store failed.
func TestUnavailableNeedsAnEnforcedRuleThatFailsClosed(t *testing.T) {
	hit := func(d stint.Decision, f stint.OnFailure, shadow bool) Hit {
		return Hit{Rule: &Rule{Policy: stint.Policy{OnFailure: f}}, Shadow: shadow, Decision: d}
	}
	passed, denied, failed := stint.Decision{Allowed: true}, stint.Decision{}, stint.Decision{Degraded: true, Unavailable: true}
	locally := stint.Decision{Degraded: true}
	for _, c := range []struct {
		name     string
		combined stint.Decision
		hits     []Hit
		want     bool
	}{
		{"closed", failed, []Hit{hit(failed, stint.FailClosed, false)}, true},
		{"closed, and another waits longer", denied, []Hit{hit(denied, stint.FailOpen, false), hit(failed, stint.FailClosed, false)}, true},
		{"denied by the store", denied, []Hit{hit(denied, stint.FailClosed, false)}, false},
		{"denied locally", locally, []Hit{hit(locally, stint.FailLocal, false)}, false},
		{"closed in shadow", denied, []Hit{hit(denied, stint.FailOpen, false), hit(failed, stint.FailClosed, true)}, false},
		{"closed beside another that admits", passed, []Hit{hit(passed, stint.FailOpen, false), hit(failed, stint.FailClosed, false)}, false},
	} {
		if got := (&Outcome{Decision: c.combined, Hits: c.hits}).Unavailable(); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

func TestALeakyBucketDeniesWhatItWouldDelayPastTheDeadline(t *testing.T) {
	s := mustParse(t, "rules: [{id: a, algorithm: leaky_bucket, limit: 1, window: 10s, queue: 5}]")
	store := stint.NewMemory(stint.MemoryOptions{MaxKeys: 100})
	defer store.Close()
	hurried, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	for i, want := range []bool{true, false, false} {
		if o, err := s.Decide(hurried, store, Map{"api_key": "k"}, 1); err != nil || o.Allowed() != want {
			t.Errorf("%d: %+v, %v", i, o.Decision, err)
		}
	}
	if o, err := s.Decide(t.Context(), store, Map{"api_key": "k"}, 1); err != nil || o.Decision.Delay < 9*time.Second || o.Decision.Delay > 10*time.Second {
		t.Errorf("%+v, %v; want a delay of one place: the denials charged nothing", o.Decision, err)
	}
}

func TestMaxWaitBoundsTheDelayOfARule(t *testing.T) {
	for _, rules := range []string{
		"rules: [{id: a, algorithm: leaky_bucket, limit: 1, window: 10s, queue: 5, max_wait: 15s}]",
		"rules: [{id: a, algorithm: leaky_bucket, params: {limit: 1, window: 10, queue: 5, max_wait: 15}}]",
		"rules: [{id: a, limits: [{algorithm: leaky_bucket, limit: 1, window: 10s, queue: 5, max_wait: 15s}]}]",
		"defaults: {algorithm: leaky_bucket, queue: 5, max_wait: 1h}\nrules: [{id: a, limit: 1, window: 10s, override: {k: {max_wait: 15s}}}]",
	} {
		s := mustParse(t, rules)
		now := time.UnixMicro(1_800_000_000_000_000)
		store := stint.NewMemory(stint.MemoryOptions{MaxKeys: 100, Clock: func() time.Time { return now }})
		defer store.Close()
		for i, want := range []struct {
			allowed      bool
			delay, retry time.Duration
		}{{true, 0, 0}, {true, 10 * time.Second, 0}, {false, 0, 5 * time.Second}, {false, 0, 5 * time.Second}} {
			o, err := s.Decide(t.Context(), store, Map{"api_key": "k"}, 1)
			if d := o.Decision; err != nil || d.Allowed != want.allowed || d.Delay != want.delay || d.RetryAfter != want.retry {
				t.Errorf("%s\n%d: %+v, %v; want %+v", rules, i, d, err, want)
			}
		}
	}
}

func TestListsHaveNames(t *testing.T) {
	for list, want := range map[List]string{ListNone: "none", ListAllow: "allow", ListDeny: "deny", ListDeny + 1: "List(3)"} {
		if got := list.String(); got != want {
			t.Errorf("%d: %q, want %q", uint8(list), got, want)
		}
	}
}

// A set of one rule decides as if the others were not in the file. Lists and tiers apply.
func TestOnlyOneRule(t *testing.T) {
	set, err := Parse(File{Name: "rules.yaml", Data: []byte(`
deny: [k9]
rules:
  - {id: closed, match: {path: /closed}, deny: [k1], limit: 9/m}
  - {id: tight, by: [api_key], limit: 1/m}
  - {id: wide, by: [api_key], limit: 2/m}
`)})
	if err != nil {
		t.Fatal(err)
	}
	wide := set.Only(set.Rule("wide"))
	store := stint.NewMemory(stint.MemoryOptions{})
	for i, c := range []struct {
		key     string
		allowed bool
		list    List
	}{{"k1", true, ListNone}, {"k1", true, ListNone}, {"k1", false, ListNone}, {"k9", false, ListDeny}} {
		o, err := wide.Decide(t.Context(), store, Map{"api_key": c.key, "path": "/closed"}, 1)
		if err != nil || o.Allowed() != c.allowed || o.List != c.list {
			t.Errorf("%d: %v, %v, %v", i, o.Allowed(), o.List, err)
		}
		if c.list == ListNone && (len(o.Hits) != 1 || o.Hits[0].Rule != set.Rule("wide")) {
			t.Errorf("%d: %+v", i, o.Hits)
		}
	}
	if o, err := set.Decide(t.Context(), store, Map{"api_key": "k2"}, 1); err != nil || len(o.Hits) != 2 {
		t.Errorf("the set itself has changed: %+v, %v", o, err)
	}
}
