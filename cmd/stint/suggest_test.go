package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stintdev/stint/cmd/stint/internal/limitsearch"
	"github.com/stintdev/stint/cmd/stint/internal/replay"
)

func TestSuggestRefusesWrongUsage(t *testing.T) {
	for name, c := range map[string]struct {
		want string
		args []string
	}{
		"noInput":   {"give at least one input", []string{"--by", "ip"}},
		"twoStdins": {"- is standard input, which can be read once", []string{"--by", "ip", "-", sampleLog, "-"}},
		"noBy":      {"--by: is missing", []string{sampleLog}},
		"wrongBy":   {`(did you mean "path"?)`, []string{"--by", "pth", sampleLog}},
		"noShare":   {`--deny-below: "0" is not a share`, []string{"--by", "ip", "--deny-below", "0", sampleLog}},
		"tooMuch":   {`--deny-below: "101%" is not a share`, []string{"--by", "ip", "--deny-below", "101%", sampleLog}},
		"wrongWord": {`--deny-below: "off" is not a share`, []string{"--by", "ip", "--deny-below", "off", sampleLog}},
		"callers":   {"--callers: 1001 is out of range", []string{"--by", "ip", "--callers", "1001", sampleLog}},
		"noSecret":  {"--key-hash-file: ", []string{"--by", "ip", "--callers", "1", "--key-hash-file", "none", sampleLog}},
		"format":    {`--format: "csv" is not known`, []string{"--by", "ip", "--format", "csv", sampleLog}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := runIn(t, "", append([]string{"suggest"}, c.args...)...); got.status != 2 || !strings.Contains(got.errors, c.want) {
				t.Errorf("status %d and %q, want 2 and …%s…", got.status, got.errors, c.want)
			}
		})
	}
}

// A replay of what stint suggest prints as JSON denies what it says.
func TestSuggestedLimitsHold(t *testing.T) {
	got := runIn(t, "", "suggest", "--by", "ip", "--deny-below", "20%", "--json", sampleLog)
	var r limitsearch.Report
	if err := json.Unmarshal([]byte(got.out), &r); err != nil || got.status != 0 || r.Suggested == nil {
		t.Fatal(err, got)
	}
	limit, err := json.Marshal(map[string]any{"limit": r.Suggested.Rate, "window": "1m", "burst": r.Suggested.Burst})
	if err != nil {
		t.Fatal(err)
	}
	again := runIn(t, "", "replay", "--limit", string(limit), "--by", "ip", "--json", sampleLog)
	var s replay.Report
	if err := json.Unmarshal([]byte(again.out), &s); err != nil || s.Denied != r.Suggested.Denied {
		t.Errorf("%v: %d denied, want %d", err, s.Denied, r.Suggested.Denied)
	}
}

// The busiest callers are listed, and credentials among them are shortened.
func TestBusiestCallersAreListed(t *testing.T) {
	log := strings.Repeat(`{"t_us":1772521925000000,"api_key":"sk_live_busy_1234567890"}`+"\n", 5) +
		strings.Repeat(`{"t_us":1772521927000000,"api_key":"sk_live_busy_1234567890"}`+"\n", 2) +
		strings.Repeat(`{"t_us":1772521927000000,"api_key":"sk_live_less_1234567890"}`+"\n", 3) + `{"t_us":1772521928000000,"ip":"192.0.2.1"}` + "\n"
	args := []string{"suggest", "--by", "api_key", "--deny-below", "50%", "--json"}
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, ""},
		{[]string{"--callers", "2", "--show-keys"}, "sk_live_busy_1234567890 7 5 7 7, sk_live_less_1234567890 3 3 3 3"},
		{[]string{"--callers", "9", "--show-keys"}, "sk_live_busy_1234567890 7 5 7 7, sk_live_less_1234567890 3 3 3 3, 192.0.2.1 1 1 1 1"},
	} {
		got := runIn(t, log, append(append(slices.Clone(args), c.args...), "-")...)
		var r limitsearch.Report
		if err := json.Unmarshal([]byte(got.out), &r); err != nil || got.status != 0 {
			t.Fatal(err, got)
		}
		var list []string
		for _, b := range r.Busiest {
			list = append(list, fmt.Sprint(b.Caller, " ", b.Requests, " ", b.PeakSecond, " ", b.PeakMinute, " ", b.PeakHour))
		}
		if s := strings.Join(list, ", "); s != c.want {
			t.Errorf("%v: %s, want %s", c.args, s, c.want)
		}
	}
	for by, log := range map[string]string{"api_key": log, "key": strings.ReplaceAll(log, "api_key", "key")} {
		shortened := runIn(t, log, "suggest", "--by", by, "--callers", "2", "-")
		if !regexp.MustCompile(`\nsk_live…[0-9a-f]{6} +7 +63.64 % +5 +7 +7\n`).MatchString(shortened.out) || strings.Contains(shortened.out, "1234567890") {
			t.Error(shortened.out)
		}
	}
	// A decision log has hashes in place of keys, which are shown whole. Other inputs have keys.
	decisions := writeFile(t, filepath.Join(t.TempDir(), "decisions.jsonl"), strings.Repeat(`{"t_us":1772521925000000,"key":"sk_p…","id":"5f1e2d3c4b5a69788796a5b4c3d2e1f0","api_key":"5f1e2d3c4b5a69788796a5b4c3d2e1f0",`+
		`"path":"/x","cost":1,"rule":"orders","allowed":true,"limit":100,"remaining":0,"degraded":false,"limits":["a/b"],"sample_rate":1,"sampled":true}`+"\n", 4))
	mixed := runIn(t, strings.ReplaceAll(log, "api_key", "key"), "suggest", "--by", "key", "--callers", "3", decisions, "-")
	if !strings.Contains(mixed.out, "\n5f1e2d3c4b5a69788796a5b4c3d2e1f0 ") || !strings.Contains(mixed.out, "\nsk_live…") || strings.Contains(mixed.out, "1234567890") {
		t.Error(mixed.out, mixed.errors)
	}
}

func TestSuggestDocumentHolds(t *testing.T) { wantDocumentHolds(t, "../../docs/suggest.md", 2, 1) }

// A sweep decides as one replay for each of its limits.
func TestSweepEqualsReplays(t *testing.T) {
	for base, memory := range map[string]string{
		"1/m": "320 bytes of memory for each key: 0.3 GB", `{"algorithm":"sliding_window_log","limit":1,"window":"10s"}`: "1984 bytes of memory for each key: 2.0 GB",
	} {
		got := runIn(t, "", "replay", "--limit", base, "--by", "ip", "--sweep", "limit=1..9:2", "--json", sampleLog)
		var swept replay.SweepReport
		if err := json.Unmarshal([]byte(got.out), &swept); err != nil || len(swept.Values) != 5 || !strings.Contains(got.errors, "sweep: 5 limits need up to "+memory+" for a million keys") {
			t.Fatal(err, got)
		}
		for _, v := range swept.Values {
			var limit string
			if strings.HasPrefix(base, "{") {
				limit = strings.Replace(base, `"limit":1`, `"limit":`+string(rune('0'+v.Value)), 1)
			} else {
				limit = string(rune('0'+v.Value)) + "/m"
			}
			one := runIn(t, "", "replay", "--limit", limit, "--by", "ip", "--json", sampleLog)
			var s replay.Report
			if err := json.Unmarshal([]byte(one.out), &s); err != nil || s.Denied != v.Denied || s.Events != swept.Events || s.Keys != swept.Keys {
				t.Errorf("%s: %v: %d of %d denied, the sweep says %d of %d", limit, err, s.Denied, s.Events, v.Denied, swept.Events)
			}
		}
	}
}

// A sweep of a rule decides as one replay for each of its values, with the rule edited.
func TestSweepOfARuleEqualsReplays(t *testing.T) {
	text := func(limit, burst, window any) string {
		return fmt.Sprintf(`tiers: {gold: {limit: 50/m}}
rules:
  - {id: all.of, by: [ip], limit: %v, burst: %v, window: %v, override: {198.51.100.23: {limit: 15, burst: 15}}}
  - {id: orders, match: {path_prefix: /v1/orders}, by: [ip], limit: 9, window: 30}
  - {id: watched, mode: shadow, by: [ip], limit: 2, window: 60}
`, limit, burst, window)
	}
	rules := filepath.Join(t.TempDir(), "rules.yaml")
	denied := map[int64]bool{}
	for _, c := range []struct {
		sweep string
		edit  func(n int64) string
	}{
		{"all.of.limit=1..9:2", func(n int64) string { return text(n, 4, 60) }},
		{"all.of.burst=1..9:2", func(n int64) string { return text(3, n, 60) }},
		{"all.of.window=5..65:20", func(n int64) string { return text(3, 4, n) }},
	} {
		writeFile(t, rules, text(3, 4, 60))
		got := runIn(t, "", "replay", "--rules", rules, "--sweep", c.sweep, "--json", sampleLog)
		var swept replay.SweepReport
		if err := json.Unmarshal([]byte(got.out), &swept); err != nil || len(swept.Values) < 4 || swept.Rule != "all.of" || !strings.Contains(got.errors, "for each key of each rule: 0.3 GB for a million keys") {
			t.Fatal(err, got)
		}
		for _, v := range swept.Values {
			writeFile(t, rules, c.edit(v.Value))
			one := runIn(t, "", "replay", "--rules", rules, "--json", sampleLog)
			var s replay.Report
			if err := json.Unmarshal([]byte(one.out), &s); err != nil || s.Denied != v.Denied || s.CallersDenied != v.CallersDenied || s.PerRule[0].Denied != v.DeniedByRule || s.Events != swept.Events || s.Callers != swept.Keys {
				t.Errorf("%s: %d: %v: the replay says %d denied, %d callers, %d by the rule, of %d and %d; the sweep says %+v of %d and %d", c.sweep, v.Value, err,
					s.Denied, s.CallersDenied, s.PerRule[0].Denied, s.Events, s.Callers, v, swept.Events, swept.Keys)
			}
			denied[v.DeniedByRule] = true
		}
	}
	if len(denied) < 4 {
		t.Errorf("the values deny %v", denied)
	}
}
