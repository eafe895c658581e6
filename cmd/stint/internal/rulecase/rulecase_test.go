package rulecase_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/cmd/stint/internal/rulecase"
	"github.com/stintdev/stint/rule"
)

const rules = `
deny: [10.6.6.0/24]
rules:
  - id: orders
    match: {path_prefix: /v1/}
    by: [api_key]
    algorithm: fixed_window
    limit: 3
    window: 1m
  - id: trial
    mode: shadow
    match: {path_prefix: /v1/}
    by: [api_key]
    algorithm: fixed_window
    limit: 1
    window: 1h
  - id: month
    match: {path: /monthly}
    by: [api_key]
    algorithm: quota
    limit: 2
    period: month
  - id: queue
    match: {path: /queue}
    by: [header:X-Tenant]
    algorithm: leaky_bucket
    limit: 1
    window: 1s
    queue: 2
  - id: login
    match: {path: /login}
    by: [ip]
    algorithm: fixed_window
    limit: 1
    window: 1s
    penalty: {after: 2, window: 1m, cool_down: 10m}
`

func read(t *testing.T, text string) (*rulecase.File, error) {
	t.Helper()
	folder := t.TempDir()
	for name, content := range map[string]string{"rules.yaml": rules, "tests.yaml": text} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(folder)
	return rulecase.Read("tests.yaml", rule.Load)
}

// run runs the only case of a file and returns its failures as lines.
func run(t *testing.T, requests string) string {
	t.Helper()
	f, err := read(t, "rules: rules.yaml\ntests:\n- name: a test\n  start: 2026-01-31T23:59:00Z\n  requests:\n"+requests)
	if err != nil {
		t.Fatal(err)
	}
	r, err := f.Run(t.Context(), &f.Cases[0], func(clock func() time.Time) stint.Store {
		return stint.NewMemory(stint.MemoryOptions{KeepAll: true, Clock: clock})
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(rulecase.Lines(f.Path, r), "\n")
}

func TestDecisionsAreCompared(t *testing.T) {
	for _, test := range []struct{ name, requests, failures string }{
		{"seriesInVirtualTime", `
  - {attributes: {api_key: a, path: /v1/x}, times: 5, every: 10s, expect: {allowed: 3, denied: 2, decision: deny, rule: orders, limit: 3, remaining: 0, retry_after: 20s, reset_after: 20s, list: none, shadow_deny: [trial]}}
  - {at: 60s, attributes: {api_key: a, path: /v1/x}, expect: {decision: allow, remaining: 2}}`, ""},
		{"timesBeforeTheOrderOfTheFile", `
  - {at: 1s, attributes: {api_key: a, path: /v1/x}, expect: {remaining: 1}}
  - {attributes: {api_key: a, path: /v1/x}, expect: {remaining: 2, shadow_deny: []}}`, ""},
		{"calendarMonth", `
  - {attributes: {api_key: a, path: /monthly}, times: 3, expect: {allowed: 2, retry_after: 1m}}
  - {at: 1m, attributes: {api_key: a, path: /monthly}, expect: {decision: allow, remaining: 1, reset_after: 672h}}`, ""},
		{"costThatNeverFits", `
  - {attributes: {api_key: a, path: /monthly}, cost: 3, expect: {decision: deny, retry_after: never}}
  - {attributes: {api_key: a, path: /monthly}, cost: 0, expect: {decision: allow, remaining: 2}}`, ""},
		{"delayOfALeakyBucket", `
  - {attributes: {"header:X-Tenant": t, path: /queue}, times: 2, expect: {allowed: 2, delay: 1s}}`, ""},
		{"lists", `
  - {attributes: {ip: 10.6.6.1, path: /v1/x}, expect: {decision: deny, list: deny, rule: none}}`, ""},
		{"penaltyBans", `
  - {attributes: {ip: 192.0.2.1, path: /login}, times: 3, expect: {allowed: 1, denied: 2}}
  - {at: 2s, attributes: {ip: 192.0.2.1, path: /login}, expect: deny}
  - {at: 602s, attributes: {ip: 192.0.2.1, path: /login}, expect: allow}`, ""},
		{"everyDifferenceIsNamed", `
  - attributes: {api_key: a, path: /v1/x}
    times: 4
    every: 1s
    expect: allow
  - at: 5s
    attributes: {api_key: a, path: /v1/x}
    expect: {allowed: 1, denied: 0, decision: allow, rule: none, limit: 4, remaining: 1, retry_after: 1s, reset_after: 2s, delay: 1s, list: allow, shadow_deny: []}`,
			`tests.yaml:10:13: at 3s: decision is deny by rule orders (retry_after 57s), want allow
tests.yaml:13:13: at 5s: 0 requests are allowed, want 1
tests.yaml:13:13: at 5s: 1 requests are denied, want 0
tests.yaml:13:13: at 5s: decision is deny by rule orders (retry_after 55s), want allow
tests.yaml:13:13: at 5s: rule is orders, want none
tests.yaml:13:13: at 5s: list is none, want allow
tests.yaml:13:13: at 5s: limit is 3, want 4
tests.yaml:13:13: at 5s: remaining is 0, want 1
tests.yaml:13:13: at 5s: retry_after is 55s, want 1s
tests.yaml:13:13: at 5s: reset_after is 55s, want 2s
tests.yaml:13:13: at 5s: delay is 0s, want 1s
tests.yaml:13:13: at 5s: shadow_deny is [trial], want []`},
		{"uncountedRequest", `
  - {attributes: {path: /other}, expect: deny}`, `tests.yaml:7:42: at 0s: decision is allow (no rule counts the request), want deny`},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := run(t, test.requests); got != test.failures {
				t.Errorf("failures:\n%s\nwant:\n%s", got, test.failures)
			}
		})
	}
}

func TestMistakesAreLocated(t *testing.T) {
	for _, test := range []struct{ name, text, mistakes string }{
		{"empty", "", "tests.yaml: is empty (write rules and tests)"},
		{"noRules", "tests: [{name: a, requests: [{expect: allow}]}]", "tests.yaml:1:1: the file has no rules (write rules: and the rule file, as seen from the folder of this file)"},
		{"noTests", "rules: rules.yaml", "tests.yaml:1:1: the file has no tests (write tests: and a list of cases, each with name and requests)"},
		{"noName", "rules: rules.yaml\ntests: [{requests: [{expect: allow}]}]", "tests.yaml:2:9: a test has no name (write name: and what the test shows)"},
		{"noRequests", "rules: rules.yaml\ntests: [{name: a}]", "tests.yaml:2:9: a test has no requests (write requests: and a list, each with attributes and expect)"},
		{"sameName", "rules: rules.yaml\ntests: [{name: a, requests: [{expect: allow}]}, {name: a, requests: [{expect: allow}]}]", `tests.yaml:2:49: there is a second test named "a" (rename it, or the one in line 2)`},
		{"noExpectation", "rules: rules.yaml\ntests: [{name: a, requests: [{cost: 1}]}]", "tests.yaml:2:30: a request expects nothing (write expect: allow, expect: deny, or the fields of the decision)"},
		{"emptyExpectation", "rules: rules.yaml\ntests: [{name: a, requests: [{expect: {}}]}]", "tests.yaml:2:39: expect has no field (write expect: allow, expect: deny, or the fields of the decision)"},
		{"unreadAttribute", "rules: rules.yaml\ntests: [{name: a, requests: [{attributes: {apikey: b}, expect: allow}]}]", `tests.yaml:2:44: no rule reads the attribute "apikey" (did you mean api_key?)`},
		{"unknownRule", "rules: rules.yaml\ntests: [{name: a, requests: [{expect: {rule: ordrs}}]}]", `tests.yaml:2:46: there is no rule "ordrs" (did you mean orders?)`},
		{"everyAlone", "rules: rules.yaml\ntests: [{name: a, requests: [{every: 1s, expect: allow}]}]", "tests.yaml:2:38: every without times (write times: and the number of requests)"},
		{"fractionOfAMicrosecond", "rules: rules.yaml\ntests: [{name: a, requests: [{at: 1ns, expect: allow}]}]", `tests.yaml:2:35: at: "1ns" is not a duration from 0 on in whole microseconds (write it as 500ms or 2s)`},
		{"centuries", "rules: rules.yaml\ntests: [{name: a, requests: [{times: 900000, every: 9000h, expect: allow}]}]", "tests.yaml:2:53: the series lasts longer than 146 years (use a shorter distance or fewer requests)"},
		{"tooManyRequests", "rules: rules.yaml\ntests: [{name: a, requests: [{times: 600000, expect: allow}, {times: 600000, expect: allow}]}]", "tests.yaml:2:62: the test has too many requests (use at most 1000000 in one test)"},
		{"sumOfCounts", "rules: rules.yaml\ntests: [{name: a, requests: [{times: 3, expect: {allowed: 1, denied: 1}}]}]", "tests.yaml:2:49: allowed and denied sum to 2 (the series has 3 requests)"},
		{"start", "rules: rules.yaml\nstart: 1969-12-31T23:59:59Z\ntests: [{name: a, requests: [{expect: allow}]}]", `tests.yaml:2:8: start: "1969-12-31T23:59:59Z" is not a time from 1970 to 2200 (write it as 2026-01-31T12:00:00Z)`},
	} {
		t.Run(test.name, func(t *testing.T) {
			if _, err := read(t, test.text); err == nil || err.Error() != test.mistakes {
				t.Errorf("mistakes:\n%v\nwant:\n%s", err, test.mistakes)
			}
		})
	}
}

func TestTheJUnitReportHasEveryCase(t *testing.T) {
	var out strings.Builder
	err := rulecase.WriteJUnit(&out, []rulecase.Suite{{Path: "a.yaml", Results: []*rulecase.Result{
		{Name: "passes", Line: 3, Requests: 2},
		{Name: "<fails>\x1b", Line: 9, Requests: 1, Failures: []rulecase.Failure{{Line: 10, Column: 5, What: "rule is a & b, want c"}}},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	const want = `<?xml version="1.0" encoding="UTF-8"?>
<testsuites tests="2" failures="1">
  <testsuite name="a.yaml" tests="2" failures="1">
    <testcase name="passes" classname="a.yaml" file="a.yaml" line="3"></testcase>
    <testcase name="&lt;fails&gt;�" classname="a.yaml" file="a.yaml" line="9">
      <failure message="rule is a &amp; b, want c">a.yaml:10:5: at 0s: rule is a &amp; b, want c</failure>
    </testcase>
  </testsuite>
</testsuites>
`
	if out.String() != want {
		t.Errorf("report:\n%s\nwant:\n%s", &out, want)
	}
}
