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
	report := filepath.Join(folder, "report.xml")
	for _, c := range []struct {
		args   []string
		status int
		want   string
	}{
		{[]string{passes}, exitDone, "PASS two (3 requests)\n1 test passed\n"},
		{[]string{passes, fails}, exitFailed, ":2:82: at 0s: 2 requests are allowed, want 3\n1 of 2 tests failed\n"},
		{[]string{passes, wrong}, exitUsage, "missing.yaml: cannot be read: no such file"},
		{[]string{filepath.Join(folder, "none.yaml")}, exitUsage, "none.yaml: no such file"},
		{[]string{"--run", "^two$", passes, fails}, exitDone, "1 test passed\n"},
		{[]string{"--run", "four", passes}, exitUsage, `no test has a name that matches "four"`},
		{[]string{"--run", "(", passes}, exitUsage, "missing closing )"},
		{[]string{"--junit", report, passes, fails}, exitFailed, "FAIL three"},
		{[]string{"--junit", "-", passes}, exitDone, `<testsuites tests="1" failures="0">`},
		{[]string{"--junit", filepath.Join(folder, "none", "report.xml"), passes}, exitFailed, "no such file or directory"},
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
