package adminapi

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stintdev/stint/cmd/stint/internal/ruleedit"
	"github.com/stintdev/stint/cmd/stint/internal/ruleset"
	"github.com/stintdev/stint/rule"
)

// A node that has not yet learned of a version bases its change on that version, and not on the
// one that it runs.
func TestANodeThatLagsLosesNothing(t *testing.T) {
	f := newFixture(t, shop)
	tag := f.want(200, "GET", "/rules/logins", "").header.Get("ETag")
	setTag := f.want(200, "GET", "/rules", "").header.Get("ETag")
	other := ruleset.NewManager(ruleset.Options{Source: f.keeper.Source, Local: true, OnSet: func(*rule.Set, ruleset.Version) {}})
	if err := other.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, base := other.Current()
	files, _, err := ruleedit.Apply(base.Files, ruleedit.PutRule("logins", []byte(`{"by":["ip"],"limit":"77/m"}`)))
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

// A source that has lost the version in force gets it back with the next change, or when it is
// published again.
func TestAChangeBringsBackWhatTheSourceHasLost(t *testing.T) {
	f := newFixture(t, shop)
	lose := func() {
		t.Helper()
		*f.keeper.Source.(*ruleset.Memory) = ruleset.Memory{}
	}
	lose()
	got := f.want(200, "PUT", "/rules/tier/free", `{"limit":500}`)
	f.wantText("id: orders", true)
	if at := got.at(t, "diff.tiers.changed"); len(at.([]any)) != 1 {
		t.Error(got.body)
	}
	text := f.text()
	lose()
	got = f.want(200, "PUT", "/rules", text)
	if listed, err := f.keeper.History(t.Context(), 9); err != nil || len(listed) != 1 || listed[0].Number != 3 || got.at(t, "changed") != true {
		t.Errorf("%v, %v, %s", listed, err, got.body)
	}
	if got := f.want(200, "PUT", "/rules", text); got.at(t, "changed") != false {
		t.Error(got.body)
	}
	lose() // another writer published a different version of the same number
	files := []rule.File{{Name: "other.yaml", Data: []byte("rules: []")}}
	if _, err := f.keeper.Source.Publish(t.Context(), 0, ruleset.Version{Number: 3, Files: files, Hash: ruleset.HashOf(files)}); err != nil {
		t.Fatal(err)
	}
	if got := f.want(200, "PUT", "/rules", text); got.at(t, "version") != 4.0 {
		t.Error(got.body)
	}
}

// ahead is a source of rules with a node that runs a version which the source
// has lost.
type ahead struct{ ruleset.Memory }

func (*ahead) Announce(context.Context, ruleset.Node) error              { return nil }
func (*ahead) Secret(_ context.Context, proposed string) (string, error) { return proposed, nil }
func (*ahead) Nodes(context.Context) ([]ruleset.Node, error) {
	return []ruleset.Node{{ID: "old", Address: "host:8080", Version: 9}}, nil
}

// A single rule cannot be changed where the other rules are unknown. A whole set can be
// published, and takes effect everywhere.
func TestANodeThatNeverHadTheRulesLosesNothing(t *testing.T) {
	f := newFixture(t, "")
	f.keeper = ruleset.NewManager(ruleset.Options{Source: &ahead{}, OnSet: func(*rule.Set, ruleset.Version) {}})
	f.Rules = f.keeper
	got := f.want(409, "PUT", "/rules/mine", `{"limit":"5/s"}`)
	if got.at(t, "error.code") != "BEHIND" || !strings.Contains(got.body, "host:8080") {
		t.Error(got.body)
	}
	f.want(409, "POST", "/v1/ban", `{"key":"k"}`)
	if got := f.want(200, "PUT", "/rules", shop); got.at(t, "version") != 10.0 {
		t.Error(got.body)
	}
	f.want(200, "PUT", "/rules/mine", `{"limit":"5/s"}`)
}

// A node answers for itself while the source of the rules fails.
func TestANodeKnowsItselfWithoutTheSource(t *testing.T) {
	f := newFixture(t, "")
	source := &sharedSource{err: errors.New("no route to 10.0.0.1")}
	f.keeper = ruleset.NewManager(ruleset.Options{Source: source, Node: func() ruleset.Node { return ruleset.Node{ID: "this"} }, OnSet: func(*rule.Set, ruleset.Version) {}})
	f.Rules = f.keeper
	if got := f.want(503, "GET", "/nodes", ""); strings.Contains(got.body, "10.0.0.1") {
		t.Error(got.body)
	}
	if got := f.want(200, "GET", "/nodes?self", ""); !strings.Contains(got.body, `{"nodes":[{"id":"this",`) {
		t.Error(got.body)
	}
	f.want(200, "GET", "/nodes?self=true", "")
	f.want(503, "GET", "/nodes?self=false", "")
	f.want(400, "GET", "/nodes?self=perhaps", "")
}
