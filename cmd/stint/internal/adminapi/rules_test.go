package adminapi

import (
	"strings"
	"testing"
)

func TestASetIsReadAsItIsWritten(t *testing.T) {
	f := newFixture(t, shop)
	if got := f.text(); got != shop {
		t.Errorf("got\n%s", got)
	}
	read := f.want(200, "GET", "/rules", "")
	if read.at(t, "version") != 1.0 || len(read.at(t, "hash").(string)) != 64 || read.at(t, "time") == nil {
		t.Error(read.body)
	}
	// The answer of GET can be sent back by PUT, and changes nothing.
	back := f.want(200, "PUT", "/rules", read.body, "If-Match", read.header.Get("ETag"))
	if back.at(t, "changed") != false || back.at(t, "version") != 1.0 {
		t.Error(back.body)
	}
}

func TestSeveralFilesAreOneSet(t *testing.T) {
	f := newFixture(t, "")
	f.want(200, "PUT", "/rules", `{"files":[{"name":"a.yaml","text":"rules: [{id: a, limit: 1/s}]"},{"name":"b.json","text":"{\"rules\":[{\"id\":\"b\",\"limit\":\"1/s\"}]}"}]}`)
	f.want(200, "PUT", "/rules/b", `{"limit":"2/s"}`)
	if got := f.text(); got != "---\n# a.yaml\nrules: [{id: a, limit: 1/s}]\n---\n# b.json\n{\"rules\":[{\"id\":\"b\",\"limit\":\"2/s\"}]}\n" {
		t.Errorf("got\n%s", got)
	}
	got := f.want(400, "PUT", "/rules", `{"files":[{"name":".a.yaml","text":"rules: []"}]}`)
	if !strings.Contains(got.body, "not the name of a rule file") {
		t.Error(got.body)
	}
}

func TestADryRunPublishesNothing(t *testing.T) {
	f := newFixture(t, shop)
	got := f.want(200, "PUT", "/rules/orders?dry_run=true", `{"limit":3,"window":60,"algorithm":"gcra"}`)
	if got.at(t, "dry_run") != true || got.at(t, "changed") != true || !strings.Contains(got.body, `"starts_fresh":[{"rule":"orders","limit":"gcra:1m","words":"3 a minute for each API key"}]`) {
		t.Error(got.body)
	}
	got = f.want(200, "PUT", "/rules/orders?dry_run=true", `{"limit":100,"window":60,"by":["ip"]}`) // the same limit, of other keys
	if !strings.Contains(got.body, `"starts_fresh":[{"rule":"orders","limit":"token_bucket:1m","words":"100 a minute for each address"}]`) {
		t.Error(got.body)
	}
	if got = f.want(200, "PUT", "/rules/orders?dry_run=true", `{"limit":9,"window":60,"by":["api_key"]}`); strings.Contains(got.body, "starts_fresh") {
		t.Error(got.body)
	}
	if f.text() != shop {
		t.Error(f.text())
	}
	f.want(400, "PUT", "/rules/orders?dry_run=perhaps", `{"limit":"1/s"}`)
}

func TestUnknownResourcesAreAnswered404(t *testing.T) {
	f := newFixture(t, shop)
	for _, q := range [][2]string{
		{"GET", "/rules/none"}, {"DELETE", "/rules/none"}, {"GET", "/rules/tier/none"}, {"DELETE", "/rules/tier/none"},
		{"GET", "/rules/versions/99"}, {"GET", "/rules/diff?from=99"}, {"DELETE", "/lists/deny/x"}, {"PUT", "/lists/none/x"},
		{"DELETE", "/rules/orders/override/x"}, {"GET", "/rules/orders/nothing"}, {"DELETE", "/lists/deny/x?rule=none"},
	} {
		got := f.want(404, q[0], q[1], "")
		if got.at(t, "error.code") != "NOT_FOUND" {
			t.Errorf("%v: %s", q, got.body)
		}
	}
	got := f.want(405, "PATCH", "/rules", "")
	if got.header.Get("Allow") == "" || got.at(t, "error.code") != "METHOD_NOT_ALLOWED" {
		t.Errorf("%v %s", got.header, got.body)
	}
}

func TestMistakesAreListed(t *testing.T) {
	f := newFixture(t, shop)
	got := f.want(400, "PUT", "/rules/orders", "{\n \"limmit\": 3\n}")
	if !strings.Contains(got.body, `"problems":[{"file":"body","line":2,"column":2,"what":"a rule has no key \"limmit\"","mend":"did you mean limit?"}`) {
		t.Error(got.body)
	}
	got = f.want(400, "POST", "/rules/validate", "rules: [{id: a}]")
	if got.at(t, "error.code") != "INVALID_RULES" {
		t.Error(got.body)
	}
	got = f.want(200, "POST", "/rules/validate", "tiers: {}\nrules: [{id: a, limit: 1/s, tier: x}]")
	if got.at(t, "valid") != true || !strings.Contains(got.body, "it is a label") || !strings.Contains(got.body, `"removed":["orders","logins"]`) {
		t.Error(got.body)
	}
	if f.text() != shop {
		t.Error(f.text())
	}
}

func TestTheOtherOnesChangeIsShown(t *testing.T) {
	f := newFixture(t, shop)
	tag := f.want(200, "GET", "/rules/orders", "").header.Get("ETag")
	f.want(200, "PUT", "/rules/logins", `{"by":["ip"],"limit":"9/m"}`) // another rule does not matter
	f.want(200, "PUT", "/rules/orders", `{"limit":20,"window":60}`, "If-Match", tag)
	got := f.want(412, "PUT", "/rules/orders", `{"limit":30,"window":60}`, "If-Match", tag)
	if got.at(t, "error.diff.from") != 2.0 || got.at(t, "error.diff.to") != 3.0 || !strings.Contains(got.body, `+    limit: 20`) {
		t.Error(got.body)
	}
	f.want(200, "PUT", "/rules/orders", `{"limit":30,"window":60}`, "If-Match", got.header.Get("ETag"))
	f.want(412, "PUT", "/rules/new", `{"limit":"1/s"}`, "If-Match", "*")
	f.want(412, "PUT", "/rules/orders", `{"limit":"1/s"}`, "If-None-Match", "*")
	f.want(200, "PUT", "/rules/made", `{"limit":"1/s"}`, "If-None-Match", "*")
	f.want(412, "PUT", "/rules/made", `{"limit":"2/s"}`, "If-None-Match", "*")
	f.want(200, "DELETE", "/rules/made", "")
	f.want(200, "PUT", "/rules/orders", `{"limit":"1/s"}`, "If-Match", "*")
}

// A change whose tag was lost on the way does not overwrite another change.
func TestAnEmptyTagMatchesNothing(t *testing.T) {
	f := newFixture(t, shop)
	f.want(412, "PUT", "/rules/orders", `{"limit":"1/s"}`, "If-Match", "")
	f.want(412, "PUT", "/rules", "rules: []", "If-Match", ", ")
	f.want(200, "PUT", "/rules/orders", `{"limit":"1/s"}`, "If-Match", "*")
}

func TestHistoryAndRollback(t *testing.T) {
	f := newFixture(t, shop)
	f.want(200, "PUT", "/rules/orders?comment=less", `{"limit":1,"window":60}`, "X-Stint-Author", "eve")
	f.want(200, "DELETE", "/rules/logins", "", "X-Stint-Comment", "no longer needed")
	history := f.want(200, "GET", "/rules/history", "")
	for _, want := range []string{`"comment":"less"`, `"author":"local:eve"`, `"comment":"no longer needed"`, `"current":3`} {
		if !strings.Contains(history.body, want) {
			t.Errorf("no %s in %s", want, history.body)
		}
	}
	got := f.want(200, "GET", "/rules/diff?from=1", "")
	if got.at(t, "to") != 3.0 || !strings.Contains(got.body, `"removed":["logins"],"changed":["orders"]`) {
		t.Error(got.body)
	}
	if text := f.want(200, "GET", "/rules/diff?from=1&to=3", "", "Accept", "text/plain").body; !strings.HasPrefix(text, "--- rules.yaml\n+++ rules.yaml\n@@") {
		t.Error(text)
	}
	f.want(200, "POST", "/rules/rollback", `{"version":1}`)
	if f.text() != shop {
		t.Error(f.text())
	}
	if v := f.want(200, "GET", "/rules", "").at(t, "version"); v != 4.0 {
		t.Errorf("version %v", v)
	}
	if old := f.want(200, "GET", "/rules/versions/2", "", "Accept", "application/yaml").body; !strings.Contains(old, "limit: 1\n") {
		t.Error(old)
	}
	f.want(200, "POST", "/rules/rollback", `{"version":0}`)
	f.wantText("ip-backstop", true)
	f.want(400, "POST", "/rules/rollback", `{}`)
	f.want(400, "POST", "/rules/rollback", `{"version":1,"to":2}`)
	f.want(400, "POST", "/rules/rollback", `{"version":-1}`)
}

func TestNodesSayWhatTheyRun(t *testing.T) {
	f := newFixture(t, shop)
	if got := f.want(200, "GET", "/nodes", ""); !strings.Contains(got.body, `"version":1`) {
		t.Error(got.body)
	}
}

func TestOneRuleIsValidated(t *testing.T) {
	f := newFixture(t, "rules:\n- {id: orders, limit: 9/s}\n")
	if got := f.want(200, "POST", "/rules/validate?rule=orders", "limit: 5/s\n").body; !strings.Contains(got, `"was":"9/s","is":"5/s"`) {
		t.Error(got)
	}
	if got := f.want(200, "POST", "/rules/validate?rule=new", "limit: 5/s\n").body; !strings.Contains(got, `"added":["new"]`) {
		t.Error(got)
	}
	if got := f.want(400, "POST", "/rules/validate?rule=orders", "by: [ip]\nlimit: much\n").body; !strings.Contains(got, `"file":"body","line":2`) {
		t.Error(got)
	}
	if got := f.want(200, "GET", "/audit", "").body; strings.Count(got, `"what"`) != 1 {
		t.Errorf("a validation is in the audit log: %s", got)
	}
}
