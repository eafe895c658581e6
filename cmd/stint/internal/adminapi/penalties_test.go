package adminapi

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/cmd/stint/internal/penalty"
	"github.com/stintdev/stint/rule"
)

type nobody struct{}

func (nobody) Began(*penalty.Punishment) {}
func (nobody) Denied(string)             {}

const punishing = `rules:
  - {id: api, limit: 1, window: 1h, penalty: {after: 2, cool_down: 2h, max: 2h}}
  - {id: logins, by: [ip], match: {path: /login}, limit: 1, window: 1h, penalty: {after: 1, cool_down: 3h, max: 3h}}
`

// ask decides a request by the rules, as a server does.
func (f *fixture) ask(a rule.Map) rule.Outcome {
	f.t.Helper()
	set, _ := f.keeper.Current()
	store := penalty.New(f.store, nobody{}, nil)
	store.Use(set)
	o, err := set.Decide(f.t.Context(), store, a, 1)
	if err != nil {
		f.t.Fatal(err)
	}
	return o
}

func TestPenaltiesAreSeenAndEnded(t *testing.T) {
	f := newFixture(t, punishing)
	key := rule.Map{"api_key": "sk_live_12345", "path": "/"}
	for range 3 {
		f.ask(key)
	}
	peek := f.want(200, "POST", "/v1/peek", `{"key":"sk_live_12345","rule":"api"}`)
	for _, want := range []string{`"name":"penalty","limit":1,"remaining":0,"reset_after_ms":7200000`, `"name":"penalty.strikes","limit":2,"remaining":2`, `"name":"penalty.levels"`} {
		if !strings.Contains(peek.body, want) {
			t.Errorf("%s is not in %s", want, peek.body)
		}
	}
	f.time = f.time.Add(90 * time.Minute) // the limit itself would allow again
	if o := f.ask(key); o.Allowed() {
		t.Fatal("not punished")
	}
	f.want(404, "POST", "/v1/unban?dry_run=true", `{"key":"sk_live_12345"}`)
	if o := f.ask(key); o.Allowed() {
		t.Error("a dry run forgives")
	}
}

func TestUnbanEndsPenaltiesOfAKeyThatIsOnNoList(t *testing.T) {
	f := newFixture(t, punishing)
	key := rule.Map{"api_key": "sk_live_12345", "path": "/"}
	for range 3 {
		f.ask(key)
	}
	f.time = f.time.Add(90 * time.Minute)
	f.want(404, "POST", "/v1/unban", `{"key":"somebody_else"}`)
	if got := f.want(200, "POST", "/v1/unban", `{"key":"sk_live_12345"}`).value(t); got["penalties"] != 1.0 || got["changed"] != false {
		t.Errorf("%v", got)
	}
	if o := f.ask(key); !o.Allowed() {
		t.Error("still punished")
	}
	f.want(404, "POST", "/v1/unban", `{"key":"sk_live_12345"}`)
	if audit := f.want(200, "GET", "/audit", ""); !strings.Contains(audit.body, "end penalties of sk_l") || strings.Contains(audit.body, "12345") {
		t.Error(audit.body)
	}
}

func TestUnbanEndsTheBanAndThePenalties(t *testing.T) {
	f := newFixture(t, punishing)
	from := rule.Map{"ip": "203.0.113.9", "path": "/login"}
	for range 3 { // both rules count this request by its address
		f.ask(from)
	}
	f.want(200, "POST", "/v1/ban", `{"key":"203.0.113.9"}`)
	f.time = f.time.Add(90 * time.Minute)
	if got := f.want(200, "POST", "/v1/unban", `{"key":"203.0.113.9"}`).value(t); got["penalties"] != 2.0 || got["changed"] != true {
		t.Errorf("%v", got)
	}
	if o := f.ask(from); !o.Allowed() {
		t.Errorf("%+v", o)
	}
}

func TestResetForgivesAndGrantsDoNot(t *testing.T) {
	f := newFixture(t, punishing)
	key := rule.Map{"api_key": "k_12345678", "path": "/"}
	for range 3 {
		f.ask(key)
	}
	got := f.want(200, "POST", "/v1/grant", `{"key":"k_12345678","rule":"api","units":1}`)
	if strings.Contains(got.body, "penalty") {
		t.Error(got.body)
	}
	if o := f.ask(key); o.Allowed() {
		t.Error("a grant forgives")
	}
	f.want(200, "POST", "/v1/reset", `{"key":"k_12345678","rule":"*"}`)
	if o := f.ask(key); !o.Allowed() {
		t.Error("a reset does not forgive")
	}
}

// calls counts the calls to a store.
type calls struct {
	stint.Store

	n int
}

func (c *calls) Take(ctx context.Context, claim stint.Claim) (stint.Decision, error) {
	c.n++
	return c.Store.Take(ctx, claim)
}

func (c *calls) TakeGroups(ctx context.Context, groups []stint.Group, out []stint.Decision) error {
	c.n++
	return c.Store.TakeGroups(ctx, groups, out)
}

func TestUnbanOfManyRulesIsFewCalls(t *testing.T) {
	var rules strings.Builder
	rules.WriteString("rules:\n")
	for i := range 600 {
		fmt.Fprintf(&rules, "  - {id: r%d, match: {path: /%d}, limit: 1, window: 1h, penalty: {after: 1, cool_down: 2h, max: 2h}}\n", i, i)
	}
	f := newFixture(t, rules.String())
	for _, path := range []string{"/0", "/0", "/300", "/300", "/599", "/599"} {
		f.ask(rule.Map{"api_key": "k", "path": path})
	}
	store := &calls{Store: f.store}
	f.Store = store
	if got := f.want(200, "POST", "/v1/unban", `{"key":"k"}`).value(t); got["penalties"] != 3.0 {
		t.Errorf("%v", got)
	}
	if store.n != 6 {
		t.Errorf("%d calls, want one for each 100 rules", store.n)
	}
	f.time = f.time.Add(time.Hour)
	for _, path := range []string{"/0", "/300", "/599"} {
		if o := f.ask(rule.Map{"api_key": "k", "path": path}); !o.Allowed() {
			t.Errorf("%s: %v", path, o.Decision.RetryAfter)
		}
	}
}
