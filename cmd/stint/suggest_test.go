package main

import (
	"encoding/json"
	"fmt"
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
	shortened := runIn(t, log, "suggest", "--by", "api_key", "--callers", "2", "-")
	if !regexp.MustCompile(`\nsk_live…[0-9a-f]{6} +7 +63.64 % +5 +7 +7\n`).MatchString(shortened.out) || strings.Contains(shortened.out, "1234567890") {
		t.Error(shortened.out)
	}
}

func TestSuggestDocumentHolds(t *testing.T) { wantDocumentHolds(t, "../../docs/suggest.md", 2, 1) }

// A sweep decides as one replay for each of its limits.
func TestSweepEqualsReplays(t *testing.T) {
	for _, base := range []string{"1/m", `{"algorithm":"sliding_window_log","limit":1,"window":"10s"}`} {
		got := runIn(t, "", "replay", "--limit", base, "--by", "ip", "--sweep", "limit=1..9:2", "--json", sampleLog)
		var swept replay.SweepReport
		if err := json.Unmarshal([]byte(got.out), &swept); err != nil || len(swept.Values) != 5 || !strings.Contains(got.errors, "sweep: 5 limits need up to 320 bytes of memory for each key: 0.3 GB for a million keys") {
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
