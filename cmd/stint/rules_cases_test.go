package main

import (
	"encoding/xml"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestRulesAreTested(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	file("rules.yaml", "rules: [{id: a, by: [ip], limit: 2, window: 60}]\n")
	passes := file("passes.yaml", "rules: rules.yaml\ntests: [{name: two, requests: [{attributes: {ip: 192.0.2.1}, times: 3, expect: {allowed: 2}}]}]\n")
	fails := file("fails.yaml", "rules: rules.yaml\ntests: [{name: three, requests: [{attributes: {ip: 192.0.2.1}, times: 3, expect: {allowed: 3}}]}]\n")
	wrong := file("wrong.yaml", "rules: missing.yaml\ntests: [{name: a, requests: [{expect: allow}]}]\n")
	forged := file("forged.yaml", `{rules: rules.yaml, tests: [{name: "one\nPASS two", requests: [{attributes: {ip: 192.0.2.1}, expect: allow}]}]}`)
	refused := file("refused.yaml", `{rules: rules.yaml, tests: [{name: one, requests: [{attributes: {ip: nowhere}, times: 2, expect: allow}]}, {name: two, requests: [{attributes: {ip: 192.0.2.1}, expect: allow}]}]}`)
	report := filepath.Join(folder, "report.xml")
	for _, c := range []struct {
		args   []string
		status int
		want   string
	}{
		{[]string{passes}, exitDone, "PASS two (3 requests)\n1 test passed\n"},
		{[]string{passes, fails}, exitFailed, ":2:82: at 0s: 2 requests are allowed, want 3\n1 of 2 tests failed\n"},
		{[]string{passes, wrong}, exitUsage, "missing.yaml: cannot be read: no such file or directory (check the name"},
		{[]string{filepath.Join(folder, "none.yaml")}, exitUsage, "none.yaml: no such file or directory (check the name"},
		{[]string{"--run", "^two$", passes, fails}, exitDone, "1 test passed\n"},
		{[]string{"--run", "four", passes}, exitUsage, `no test has a name that matches "four"`},
		{[]string{"--run", "(", passes}, exitUsage, "missing closing )"},
		{[]string{"--junit", report, passes, fails}, exitFailed, "FAIL three"},
		{[]string{"--junit", "-", passes}, exitDone, `<testsuites tests="1" failures="0">`},
		{[]string{"--junit", filepath.Join(folder, "none", "report.xml"), passes}, exitFailed, "no such file or directory"},
		{[]string{"--junit", passes, fails, passes}, exitUsage, "passes.yaml is a file of tests (name another file)"},
		{[]string{forged}, exitDone, "PASS one PASS two (1 request)\n1 test passed\n"},
		{[]string{refused}, exitFailed, "at 0s: the rules cannot decide the request: ip: "},
		{[]string{refused}, exitFailed, "PASS two (1 request)\n1 of 2 tests failed\n"},
		{nil, exitUsage, "give at least one file, such as tests.yaml"},
	} {
		got := command(t, nil, append([]string{"rules", "test"}, c.args...)...)
		if got.status != c.status || !strings.Contains(got.out+got.errors, c.want) {
			t.Errorf("%v: status %d, want %d with %q\n%s%s", c.args, got.status, c.status, c.want, got.out, got.errors)
		}
	}
	text, err := os.ReadFile(report)
	if err != nil {
		t.Fatal(err)
	}
	var parsed struct {
		Tests    int `xml:"tests,attr"`
		Failures int `xml:"failures,attr"`
	}
	if err := xml.Unmarshal(text, &parsed); err != nil || parsed.Tests != 2 || parsed.Failures != 1 {
		t.Errorf("report: %+v (%v)\n%s", parsed, err, text)
	}
}

func TestRulesAreExplained(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "rules.yaml")
	rules := "deny: [192.0.2.9]\nrules:\n- {id: a, match: {path_prefix: /v1/}, by: [user], missing: skip, limit: 2, window: 60, override: {vip: {limit: 9}}}\n- {id: b, mode: shadow, deny_all: true}\n"
	if err := os.WriteFile(path, []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		attributes string
		status     int
		want       string
		more       []string
	}{
		{`{"user":"vip","path":"/v1/x"}`, exitDone, "a (enforce): counts the request\n  path_prefix /v1/: holds, the request has /v1/x\n  key: vip (by user)\n  limit: token_bucket:1m 9 per 1m, capacity 9, from the override vip over the rule\nb (shadow): would deny: the rule denies everything\n", nil},
		{`{"user":"u","path":"/v2"}`, exitDone, "a (enforce): does not match\n  path_prefix /v1/: does not hold, the request has /v2\n", nil},
		{`{"path":"/v1/\u001b[2J"}`, exitDone, "the request has /v1/%1B%5B2J\n", nil},
		{`{"ip":"192.0.2.9","path":"/v1/x"}`, exitDone, "denied: the request is on a deny list", nil},
		{`{"path":"/v1/x"}`, exitDone, "a (enforce): does not count the request: the request has no user, and missing is skip\n", nil},
		{`{"user":"u","path":"/v1/x"}`, exitDone, `"key":"u","by":["user"],"cost":5,"limits":["token_bucket:1m 2 per 1m, capacity 2"],"source":"rule"`, []string{"--json", "--cost", "5"}},
		{`{"uzer":"u"}`, exitUsage, `attributes: no rule reads "uzer" (did you mean user?)`, nil},
		{`{"user":1}`, exitUsage, `attributes: "user": is not a text (write the value in quotes)`, nil},
		{`{"headers":{"user-agent":"curl"}}`, exitUsage, `(write each header by itself, as "header:user-agent":"curl")`, nil},
		{`{"user":`, exitUsage, "attributes: is not a JSON object of texts", nil},
		{`[1]`, exitUsage, "attributes: is not a JSON object of texts", nil},
		{`null`, exitUsage, "attributes: is not a JSON object of texts", nil},
		{`{"ip":"x"}`, exitUsage, `ip: "x" is not an address`, nil},
		{``, exitUsage, "attributes: is missing", nil},
		{`{}`, exitUsage, "cost: -1 is out of range", []string{"--cost", "-1"}},
	} {
		got := command(t, nil, append([]string{"rules", "explain", "--rules", path, "--attributes", c.attributes}, c.more...)...)
		if got.status != c.status || !strings.Contains(got.out+got.errors, c.want) {
			t.Errorf("%s: status %d, want %d with %q\n%s%s", c.attributes, got.status, c.status, c.want, got.out, got.errors)
		}
	}
	if got := command(t, nil, "rules", "explain", "--attributes", "{}"); got.status != exitUsage || !strings.Contains(got.errors, "rules: is missing") {
		t.Errorf("status %d\n%s", got.status, got.errors)
	}
}
