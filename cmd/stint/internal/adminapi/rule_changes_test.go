package adminapi

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stintdev/stint/cmd/stint/internal/ruleset"
)

// historyOf returns the versions that changed a rule, such as "3 changed after 2".
func historyOf(t *testing.T, got reply) string {
	t.Helper()
	var lines []string
	for _, one := range got.value(t)["versions"].([]any) {
		v := one.(map[string]any)
		lines = append(lines, fmt.Sprintf("%v %v after %v: %v", v["version"], v["change"], v["previous"], v["comment"]))
	}
	return strings.Join(lines, "\n")
}

func TestARuleHasAHistory(t *testing.T) {
	f := newFixture(t, "")
	if got := f.want(200, "GET", "/v1/rules", ""); strings.Contains(got.body, `"changed"`) {
		t.Errorf("the built-in rules were changed: %s", got.body)
	}
	for _, change := range [][3]string{
		{"PUT", "/rules?comment=first", shop},
		{"PUT", "/rules/orders?comment=tighter", `{"limit":"5/m"}`},
		{"PUT", "/rules/logins?comment=another", `{"by":["ip"],"limit":"9/m"}`},
		{"DELETE", "/rules/orders?comment=gone", ""},
		{"PUT", "/rules/orders?comment=again", `{"limit":"6/m"}`},
	} {
		f.want(200, change[0], change[1], change[2])
	}
	got := f.want(200, "GET", "/rules/history?rule=orders", "")
	const want = "5 added after 4: again\n4 removed after 3: gone\n2 changed after 1: tighter\n1 added after 0: first"
	if history := historyOf(t, got); history != want || got.at(t, "looked_back_to") != 0.0 {
		t.Errorf("%s\n%s", history, got.body)
	}
	if history := historyOf(t, f.want(200, "GET", "/rules/history?rule=orders&n=1", "")); history != "5 added after 4: again" {
		t.Error(history)
	}
	list := f.want(200, "GET", "/v1/rules", "")
	for id, want := range map[string]float64{"orders": 5, "logins": 3} {
		if at := changedIn(t, list, id); at != want {
			t.Errorf("%s has changed in version %v, want %v: %s", id, at, want, list.body)
		}
	}
	f.want(200, "PUT", "/rules/logins?comment=later", `{"by":["ip"],"limit":"8/m"}`)
	if list = f.want(200, "GET", "/v1/rules?rule=logins", ""); changedIn(t, list, "logins") != 6.0 {
		t.Error(list.body)
	}
	if got := f.want(200, "GET", "/rules/history?rule=nobody", ""); historyOf(t, got) != "" {
		t.Error(got.body)
	}
}

// changedIn returns the version in which a list says that a rule has changed.
func changedIn(t *testing.T, list reply, id string) any {
	t.Helper()
	for _, one := range list.value(t)["rules"].([]any) {
		if r := one.(map[string]any); r["id"] == id {
			changed, _ := r["changed"].(map[string]any)
			return changed["version"]
		}
	}
	return nil
}

// forgetful is a source that keeps only versions from a number on.
type forgetful struct {
	Rules

	from uint64
	gets int
	err  error // of each call, unless nil
}

func (f *forgetful) Get(ctx context.Context, number uint64) (ruleset.Version, error) {
	f.gets++
	if ctx.Err() != nil {
		return ruleset.Version{}, ctx.Err()
	}
	if f.err != nil {
		return ruleset.Version{}, f.err
	}
	if number < f.from {
		return ruleset.Version{}, ruleset.ErrNone
	}
	return f.Rules.Get(ctx, number)
}

// Versions that are no longer kept end the history, and a comparison is made once.
func TestAHistoryEndsWhereVersionsAreForgotten(t *testing.T) {
	f := newFixture(t, shop)
	for n := range 4 {
		f.want(200, "PUT", "/rules/orders", fmt.Sprintf(`{"limit":"%d/m"}`, n+20))
	}
	source := &forgetful{Rules: f.Rules, from: 3}
	f.Rules = source
	got := f.want(200, "GET", "/rules/history?rule=orders", "")
	if history := historyOf(t, got); !strings.HasPrefix(history, "5 changed after 4") || strings.Count(history, "\n") != 1 || got.at(t, "looked_back_to") != 4.0 {
		t.Errorf("%s", got.body)
	}
	if got := f.want(200, "GET", "/v1/rules", ""); changedIn(t, got, "orders") != 5.0 || changedIn(t, got, "logins") != nil {
		t.Error(got.body)
	}
	before := source.gets
	f.want(200, "GET", "/v1/rules", "")
	if more := source.gets - before; more > 2 {
		t.Errorf("%d versions were read again", more)
	}
}

// A source that does not answer is asked again after a pause, and the rules are listed meanwhile.
func TestAHistoryDoesNotWaitForAFailingSource(t *testing.T) {
	f := newFixture(t, shop)
	source := &forgetful{Rules: f.Rules, err: errors.New("no answer")}
	f.Rules = source
	for range 5 {
		if got := f.want(200, "GET", "/v1/rules", ""); changedIn(t, got, "orders") != nil || idsOf(t, got) != "orders logins" {
			t.Error(got.body)
		}
	}
	if source.gets != 1 {
		t.Errorf("the source was asked %d times", source.gets)
	}
	if got := f.want(200, "GET", "/rules/history?rule=orders", ""); got.at(t, "looked_back_to") != 2.0 {
		t.Error(got.body)
	}
	source.err = nil
	f.time = f.time.Add(compareAgain)
	if got := f.want(200, "GET", "/v1/rules", ""); changedIn(t, got, "orders") != 1.0 {
		t.Error(got.body)
	}
}

// A client that leaves does not count as a failure of the source: its request goes on for the
// next one.
func TestAHistoryDoesNotBlameTheSourceForAClientThatLeaves(t *testing.T) {
	f := newFixture(t, shop)
	f.Rules = &leaving{Rules: &forgetful{Rules: f.Rules}}
	for range 3 {
		ctx, leave := context.WithCancel(t.Context())
		f.Rules.(*leaving).leave = leave
		f.compared(ctx)
	}
	if got := f.want(200, "GET", "/v1/rules", ""); changedIn(t, got, "orders") != 1.0 {
		t.Error(got.body)
	}
}

// leaving is a source whose client leaves while it lists the versions.
type leaving struct {
	Rules

	leave func()
}

func (l *leaving) History(ctx context.Context, n int) ([]ruleset.Version, error) {
	l.leave()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return l.Rules.History(ctx, n)
}

// The ids of changed rules are bounded: newer versions take the room of older ones.
func TestAHistoryIsBounded(t *testing.T) {
	f := newFixture(t, shop)
	many := map[string]string{}
	for n := range mostChanged/2 + 1 {
		many[strconv.Itoa(n)] = changeChanged
	}
	for n := range 6 {
		f.want(200, "PUT", "/rules/orders", fmt.Sprintf(`{"limit":"%d/m"}`, n+20))
		f.want(200, "GET", "/v1/rules", "")
		for _, one := range f.changes.known { // as if each version had changed many rules
			one.rules = many
		}
	}
	f.want(200, "GET", "/v1/rules", "")
	if got := len(f.changes.known); got != 2 {
		t.Errorf("%d versions of %d ids are remembered", got, len(many))
	}
}

func TestTiersAreListed(t *testing.T) {
	f := newFixture(t, shop)
	got := f.want(200, "GET", "/v1/tiers", "")
	const want = `{"tiers":[{"name":"free","text":"{\"limit\":2,\"window\":60}","rules":0,"limits":[]}]}` + "\n"
	if got.body != want {
		t.Errorf("got  %s\nwant %s", got.body, want)
	}
	f.want(200, "PUT", "/rules", "tiers: {free: {api_key_pattern: \"f_*\", limit: 2/m}}\nrules: [{id: a, by: [api_key]}, {id: b, by: [api_key], limit: 7/m}]")
	got = f.want(200, "GET", "/v1/tiers", "")
	if !strings.Contains(got.body, `"limits":[{"rule":"a","words":"2 a minute for each API key"}`) {
		t.Error(got.body)
	}
}

func TestATierIsReplaced(t *testing.T) {
	f := newFixture(t, shop)
	f.want(200, "POST", "/rules/validate?tier=free", "limit: 3/m")
	f.want(400, "POST", "/rules/validate?tier=free", "limit: much")
	tag := f.want(200, "GET", "/rules/tier/free", "").header.Get("ETag")
	f.want(200, "PUT", "/rules/tier/free?replace=true", "limit: 3/m", "If-Match", tag)
	if got := f.want(200, "GET", "/rules/tier/free", ""); strings.TrimSpace(got.body) != `{"limit":"3/m"}` {
		t.Error(got.body)
	}
	f.want(412, "PUT", "/rules/tier/free?replace=true", "limit: 4/m", "If-Match", tag)
	f.want(200, "PUT", "/rules/tier/free?replace=true", "4/m")
	f.want(200, "PUT", "/rules/tier/gold?replace=true", "{limit: 9/m}", "If-None-Match", "*")
	if got := f.want(200, "GET", "/v1/tiers", ""); !strings.Contains(got.body, `"name":"gold"`) {
		t.Error(got.body)
	}
	f.want(400, "PUT", "/rules/tier/gold?replace=perhaps", "limit: 3/m")
}
