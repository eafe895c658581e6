package envoyrls

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stintdev/stint"
)

func TestMistakesHaveTheirPlace(t *testing.T) {
	for name, c := range map[string]struct{ config, want string }{
		"no domain":          {"descriptors: []", "c.yaml:1:1: config file cannot have empty domain"},
		"empty":              {"", "c.yaml: is empty"},
		"not YAML":           {"domain: d\ndescriptors: [", "c.yaml:"},
		"a list":             {"- a", "c.yaml:1:1: the top of a file must be keys and values"},
		"unknown key":        {"domain: d\ndescriptor: []", `c.yaml:2:1: "descriptor" is not a key of a configuration (did you mean descriptors?)`},
		"no key":             {"domain: d\ndescriptors: [{value: v}]", "c.yaml:2:15: descriptor has empty key"},
		"duplicate":          {"domain: d\ndescriptors:\n  - key: a\n  - key: a\n", "c.yaml:4:5: duplicate descriptor composite key 'd.a'"},
		"no unit":            {"domain: d\ndescriptors:\n  - {key: a, rate_limit: {requests_per_unit: 1}}\n", "c.yaml:3:26: invalid rate limit unit ''"},
		"no such unit":       {"domain: d\ndescriptors:\n  - {key: a, rate_limit: {unit: fortnight, requests_per_unit: 1}}\n", "c.yaml:3:33: invalid rate limit unit 'fortnight'"},
		"unlimited and unit": {"domain: d\ndescriptors:\n  - {key: a, rate_limit: {unlimited: true, unit: day}}\n", "should not specify rate limit unit when unlimited"},
		"empty replaces":     {"domain: d\ndescriptors:\n  - {key: a, rate_limit: {unit: day, replaces: [{name: ''}]}}\n", "should not have an empty replaces entry"},
		"replaces itself":    {"domain: d\ndescriptors:\n  - {key: a, rate_limit: {unit: day, name: n, replaces: [{name: n}]}}\n", "replaces should not contain name of same descriptor"},
		"share of one value": {"domain: d\ndescriptors:\n  - {key: a, value: b, share_threshold: true}\n", "c.yaml:3:41: share_threshold can only be used with wildcard values"},
		"a fraction":         {"domain: d\ndescriptors:\n  - {key: a, value: 1.5}\n", `put it into quotes: "1.5"`},
		"a negative number":  {"domain: d\ndescriptors:\n  - {key: a, rate_limit: {unit: day, requests_per_unit: -1}}\n", "c.yaml:3:57: requests_per_unit must be a whole number"},
		"too great a number": {"domain: d\ndescriptors:\n  - {key: a, rate_limit: {unit: day, requests_per_unit: 4294967296}}\n", "requests_per_unit must be a whole number"},
		"a word for a flag":  {"domain: d\ndescriptors:\n  - {key: a, shadow_mode: perhaps}\n", "shadow_mode must be true or false"},
		"text for a list":    {"domain: d\ndescriptors: all\n", "c.yaml:2:14: descriptors must be a list"},
		"text in a list":     {"domain: d\ndescriptors: [a]\n", "a descriptor must be keys and values"},
		"unit and window":    {"domain: d\ndescriptors:\n  - {key: a, rate_limit: {unit: day, window: 30s}}\n", "keep one"},
		"half a second":      {"domain: d\ndescriptors:\n  - {key: a, rate_limit: {window: 500ms}}\n", `"500ms" is not a window`},
		"no such algorithm":  {"domain: d\ndescriptors:\n  - {key: a, rate_limit: {unit: day, requests_per_unit: 1, algorithm: magic}}\n", "magic"},
		"a shaper":           {"domain: d\ndescriptors:\n  - {key: a, rate_limit: {unit: day, requests_per_unit: 1, algorithm: leaky_bucket}}\n", "leaky_bucket delays"},
		"burst of a window":  {"domain: d\ndescriptors:\n  - {key: a, rate_limit: {unit: day, requests_per_unit: 1, burst: 2}}\n", "burst means nothing to fixed_window"},
		"no consistency":     {"domain: d\ndescriptors:\n  - {key: a, rate_limit: {unit: day, requests_per_unit: 1, consistency: lease}}\n", `c.yaml:3:73: consistency: "lease" is not known (use strict, leased, partitioned)`},
		"no failure policy":  {"domain: d\ndescriptors:\n  - {key: a, rate_limit: {unit: day, requests_per_unit: 1, on_store_failure: [open]}}\n", `c.yaml:3:78: on_store_failure must be one word (use open, closed, local, last_known)`},
		"misspelt policy":    {"domain: d\ndescriptors:\n  - {key: a, rate_limit: {unit: day, requests_per_unit: 1, on_store_failur: open}}\n", `c.yaml:3:60: "on_store_failur" is not a key of a configuration (did you mean on_store_failure?)`},
		"too long a log":     {"domain: d\ndescriptors:\n  - {key: a, rate_limit: {unit: day, requests_per_unit: 20000, algorithm: sliding_window_log}}\n", "c.yaml:3:57: "},
		"descriptors within": {"domain: d\ndescriptors: &x\n  - key: a\n    descriptors: *x\n", "nested too deeply"},
		"too many limits":    {"domain: d\ndescriptors:\n  - {key: a, rate_limits: [" + strings.Repeat("{unit: day},", maxLimits+1) + "]}\n", "c.yaml:3:5: there are 17 limits"},
		"one window twice":   {"domain: d\ndescriptors:\n  - {key: a, rate_limit: {unit: day}, rate_limits: [{window: 24h}]}\n", "c.yaml:3:53: two limits of one descriptor count the same window"},
		"unlimited and more": {"domain: d\ndescriptors:\n  - {key: a, rate_limits: [{unit: day}, {unlimited: true}]}\n", "c.yaml:3:41: unlimited means nothing beside other limits"},
		"a word for a limit": {"domain: d\ndescriptors:\n  - {key: a, rate_limits: [many]}\n", "c.yaml:3:28: a rate_limit must be keys and values"},
		"endless metadata":   {"domain: d\ndescriptors:\n  - {key: a, metadata: {x: .inf}, rate_limit: {unit: day}}\n", "c.yaml:3:24: metadata cannot be sent to Envoy"},
		"merge of itself":    {"domain: d\ndescriptors:\n  - &x\n    key: a\n    <<: *x\n", "<< is nested too deeply"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, _, err := parse("c.yaml", []byte(c.config), stint.Strict); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
}

func TestFilesOfEnvoysServiceLoadAsTheyAre(t *testing.T) {
	f, warnings, err := parse("c.yaml", []byte(`
domain: rl
limits: &slow
  unit: HOUR
`), stint.Strict)
	if err == nil {
		t.Errorf("limits is no key: %v %v", f, warnings)
	}
	f, warnings, err = parse("c.yaml", []byte(`
# A comment
domain: rl
descriptors:
  - key: database
    value: users
    rate_limit: &slow
      unit: HOUR
      requests_per_unit: 0x10
  - key: code
    value: 404
    detailed_metric: true
    rate_limit: *slow
  - key: flag
    value: true
    rate_limit: {<<: *slow, requests_per_unit: 5}
  - key: nothing
    rate_limit:
    descriptors:
  - key: placed
    rate_limit: {unit: week, requests_per_unit: 3, shadow_mode: true}
`), stint.Strict)
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	for _, w := range warnings {
		texts = append(texts, w.Error())
	}
	if len(texts) != 2 || !strings.Contains(texts[0], "c.yaml:12:22: has no effect") || !strings.Contains(texts[1], "shadow_mode means nothing in a rate_limit") {
		t.Errorf("warnings: %q", texts)
	}
	var got []string
	for _, l := range f.limits {
		got = append(got, l.path+" "+l.counted.String())
	}
	want := "rl.database_users fixed_window:1h 16 per 1h; rl.code_404 fixed_window:1h 16 per 1h; rl.flag_true fixed_window:1h 5 per 1h; rl.placed fixed_window:168h 3 per 168h"
	if strings.Join(got, "; ") != want {
		t.Errorf("got  %s\nwant %s", strings.Join(got, "; "), want)
	}
}

// FuzzParse checks that no file causes a panic, and that a parsed file answers
// requests.
func FuzzParse(f *testing.F) {
	f.Add([]byte(messaging), "to_number", "1")
	f.Add([]byte("domain: d\ndescriptors: &x\n  - key: a*b\n    <<: [{value: v*}]\n    metadata: {a: [1, {b: c}]}\n    descriptors: *x\n"), "a", "v")
	f.Fuzz(func(t *testing.T, data []byte, key, value string) {
		file, _, err := parse("c.yaml", data, stint.Strict)
		if err != nil {
			_ = err.Error()
			return
		}
		for _, l := range file.top.find(descriptor(key + "=" + value).GetEntries()).limits {
			if !l.unlimited && (!l.counted.Valid() || l.window <= 0) {
				t.Errorf("a limit that cannot count: %+v", l)
			}
		}
	})
}

// A file that Envoy's service reads silently is read too, with warnings.
func TestMistakesThatEnvoysServiceIgnoresAreWarnings(t *testing.T) {
	for config, warning := range map[string]string{
		"domain: d\n---\n":                                                "",
		"---\ndomain: d\n---\ndomain: e\n":                                "c.yaml:3:1: there is a second document, which is not read",
		"domain: x\ndomain: d\n":                                          "c.yaml:2:1: domain is given twice, of which the last counts",
		"domain: d\ndescriptors: [{key: 2020-01-02}]":                     "",
		"domain: d\ndescriptors: [{key: a, value: on, shadow_mode: yes}]": "",
		"domain: d\ndescriptors: [{key: a, rate_limit: {unlimited: true, on_store_failure: open}}]": "c.yaml:2:72: on_store_failure means nothing beside unlimited (remove the one or the other)",
	} {
		f, warnings, err := parse("c.yaml", []byte(config), stint.Strict)
		if err != nil || f.domain != "d" {
			t.Errorf("%q: %v %v", config, f, err)
		} else if got := warnings.Error(); warning == "" && got != "" || !strings.Contains(got, warning) {
			t.Errorf("%q: warned of %q, want %q", config, got, warning)
		}
	}
}

func TestOnlyPatternsAreShared(t *testing.T) {
	config := "domain: d\ndescriptors:\n  - {key: a, value: x*y, share_threshold: true, rate_limit: {unit: day}}\n"
	if _, _, err := parse("c.yaml", []byte(config), stint.Strict); err != nil {
		t.Error(err)
	}
	config = strings.Replace(config, "x*y", "xy", 1)
	if _, _, err := parse("c.yaml", []byte(config), stint.Strict); err == nil || !strings.Contains(err.Error(), "c.yaml:3:42: share_threshold can only be used with wildcard values") {
		t.Error(err)
	}
}

// A small file that expands through aliases to a large one is refused, or shares what
// its aliases name.
func TestFilesThatGrowAreBounded(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	var names, described strings.Builder
	fmt.Fprintf(&names, "domain: d\ndescriptors:\n  - key: &k %s\n    value: \"0\"\n", long)
	fmt.Fprintf(&described, "domain: d\ndescriptors:\n  - key: a\n    metadata: &m {x: %s}\n    rate_limit: {unit: day}\n", long)
	for i := range 10_000 {
		fmt.Fprintf(&names, "  - {key: *k, value: \"%d\"}\n", i+1)
		fmt.Fprintf(&described, "  - {key: a, value: \"%d\", metadata: *m, rate_limit: {unit: day}}\n", i)
	}
	if _, _, err := parse("c.yaml", []byte(names.String()), stint.Strict); err == nil || !strings.Contains(err.Error(), "the names of all descriptors are longer than") {
		t.Errorf("%.200v", err)
	}
	f, warnings, err := parse("c.yaml", []byte(described.String()), stint.Strict)
	if err != nil || len(f.limits) != 10_001 || f.limits[0].metadata != f.limits[10_000].metadata {
		t.Errorf("%.200v: %d limits", err, len(f.limits))
	}
	if len(warnings) != maxProblems+1 {
		t.Errorf("%d warnings, want %d and one that says so", len(warnings), maxProblems)
	}
	bomb := "domain: d\nx: &a0 [z,z,z,z,z,z,z,z,z]\n"
	for i := range 12 {
		bomb += fmt.Sprintf("x%d: &a%d [%s]\n", i+1, i+1, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d,", i), 9), ","))
	}
	if _, _, err := parse("c.yaml", []byte(strings.ReplaceAll(bomb, "domain: d\n", "")+"domain: d\ndescriptors: [{key: a, metadata: {v: *a12}, rate_limit: {unit: day}}]\n"), stint.Strict); err == nil {
		t.Error("aliases of aliases were followed")
	}
}

// The length of an alias says nothing about the length of its target.
func TestAliasesAreCountedAsWhatTheyStandFor(t *testing.T) {
	if testing.Short() {
		t.Skip("reads hundreds of thousands of limits")
	}
	const keys = "abcdefghijklmnop"
	list := func(n int, one string) string { return strings.TrimSuffix(strings.Repeat(one+",", n), ",") }
	var limits string
	for i := range maxLimits {
		limits += fmt.Sprintf("{window: %ds},", i+1)
	}
	for _, c := range []struct{ first, others, want string }{
		{"rate_limits: &x [" + limits + "]", "rate_limits: *x", "more than 200000 descriptors and limits"},
		{"rate_limit: {unit: day, replaces: &x [" + list(1000, "{name: o}") + "]}", "rate_limit: {unit: day, replaces: *x}", "replaces have more than 200000 entries"},
		{"metadata: {v: &x [" + list(500, "z") + "]}, rate_limit: {unit: day}", "metadata: {v: *x}, rate_limit: {unit: day}", "the metadata of all descriptors is longer than"},
		{"metadata: &x {v: [*x]}, rate_limit: {unit: day}", "rate_limit: {unit: day}", "nested too deeply"},
		{"rate_limit: &x {" + list(1000, "unit: day") + "}", "rate_limit: *x", "a rate_limit has 1000 keys"},
	} {
		text := strings.Builder{}
		text.WriteString("domain: d\ndescriptors:\n  - {key: first, " + c.first + "}\n")
		for i := range 15_000 {
			fmt.Fprintf(&text, "  - {key: %c, value: \"%d\", %s}\n", keys[i%16], i, c.others)
		}
		if _, _, err := parse("c.yaml", []byte(text.String()), stint.Strict); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.60s: %.200v, want %s", c.first, err, c.want)
		}
	}
}

func TestAFileOfTenThousandDescriptors(t *testing.T) {
	var text strings.Builder
	text.WriteString("domain: d\ndescriptors:\n")
	for i := range 10_000 {
		fmt.Fprintf(&text, "  - {key: user, value: u%d, rate_limit: {unit: minute, requests_per_unit: %d}}\n", i, i+1)
	}
	s := serve(t, text.String())
	s.want(request("d", "user=u0", "user=u9999", "user=u10000"), "OK | OK 1/MINUTE left 0 reset 40 | OK 10000/MINUTE left 9999 reset 40 | OK")
}
