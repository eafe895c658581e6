package adminapi

import (
	"strings"
	"testing"

	"github.com/stintdev/stint/internal/ruleset"
	"github.com/stintdev/stint/rule"
)

// A node that has not yet heard of a version makes its change on that, not on
// what it runs.
func TestANodeThatLagsLosesNothing(t *testing.T) {
	f := newFixture(t, shop)
	tag := f.want(200, "GET", "/rules/logins", "").header.Get("ETag")
	setTag := f.want(200, "GET", "/rules", "").header.Get("ETag")
	other := ruleset.NewKeeper(ruleset.Options{Source: f.keeper.Source, Local: true, OnSet: func(*rule.Set, ruleset.Version) {}})
	if err := other.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, base := other.Current()
	files, _, err := rule.Apply(base.Files, rule.PutRule("logins", []byte(`{"by":["ip"],"limit":"77/m"}`)))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.Publish(t.Context(), ruleset.Change{Files: files, After: base.Number, Author: "other"}); err != nil {
		t.Fatal(err)
	}
	got := f.want(412, "PUT", "/rules/logins", `{"by":["ip"],"limit":"1/m"}`, "If-Match", tag)
	if !strings.Contains(got.body, "+    limit: 77/m") {
		t.Error(got.body)
	}
	f.want(412, "PUT", "/rules", "rules: []", "If-Match", setTag)
	f.want(200, "PUT", "/rules/orders", `{"limit":"88/m"}`)
	f.wantText("limit: 77/m", true)
	f.wantText("limit: 88/m", true)
	if got := f.want(200, "GET", "/audit", "").value(t)["entries"].([]any); len(got) != 4 {
		t.Errorf("%d entries, want one a request: %v", len(got), got)
	}
}
