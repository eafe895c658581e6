package ruleedit

import (
	"testing"

	"github.com/stintdev/stint/rule"
)

func TestLimitsAreSaidInSentences(t *testing.T) {
	for text, want := range map[string]string{
		`{id: a, by: [api_key], limit: 100, window: 1m, capacity: 200}`:                                "100 a minute for each API key, bursts to 200",
		`{id: a, by: [ip], limit: 5, window: 1h}`:                                                      "5 an hour for each address",
		`{id: a, by: [api_key, path], limit: 5, window: 90s}`:                                          "5 in 1m30s for each API key and path",
		`{id: a, by: ["header:X-Plan"], limit: 5, window: 30m}`:                                        "5 in 30m for each header x-plan",
		`{id: a, by: [ip], algorithm: fixed_window, limit: 5, window: 1m}`:                             "5 a minute for each address, in windows that begin at fixed times",
		`{id: a, by: [ip], algorithm: sliding_window_log, limit: 5, window: 1m}`:                       "5 in any minute for each address",
		`{id: a, by: [ip], algorithm: sliding_window_log, limit: 5, window: 90s}`:                      "5 in any 1m30s for each address",
		`{id: a, by: [ip], algorithm: sliding_window_counter, limit: 5, window: 1m}`:                   "about 5 in any minute for each address",
		`{id: a, by: [ip], algorithm: sliding_window_counter, limit: 5, window: 7d}`:                   "about 5 in any 7 days for each address",
		`{id: a, by: [ip], algorithm: gcra, limit: 5, window: 500ms, capacity: 1}`:                     "5 in 500ms for each address, bursts to 1",
		`{id: a, limit: 5, window: 1d}`:                                                                "5 a day for each API key",
		`{id: a, by: [ip], algorithm: leaky_bucket, limit: 5, window: 1m}`:                             "5 a minute for each address, evenly spaced",
		`{id: a, by: [ip], algorithm: leaky_bucket, limit: 5, window: 1m, queue: 3}`:                   "5 a minute for each address, evenly spaced, 3 may wait",
		`{id: a, by: [ip], algorithm: leaky_bucket, limit: 1, window: 1s, queue: 1, max_wait: 1500ms}`: "1 a second for each address, evenly spaced, 1 may wait for at most 1.5s",
		`{id: a, by: [ip], algorithm: quota, limit: 5, period: month}`:                                 "5 in each month for each address",
		`{id: a, by: [ip], algorithm: quota, limit: 5, period: day, utc_offset: "+02:00"}`:             "5 in each day for each address, by the time of UTC+02:00",
		`{id: a, by: [ip], algorithm: quota, limit: 5, period: 30d, anchor: "2026-01-31T00:00:00Z"}`:   "5 in each 30d for each address, counted from 2026-01-31T00:00:00Z",
		`{id: a, by: [ip], refill_rate: "1.67", capacity: 9}`:                                          "1.67 a second for each address, bursts to 9",
		`{id: a, by: [ip], limits: [{limit: 1, window: 1s}, {limit: 9, window: 1m}]}`:                  "1 a second for each address, and 9 a minute for each address",
		`{id: a, by: [ip], combine: any, limits: [{limit: 1, window: 1s}, {limit: 9, window: 1m}]}`:    "1 a second for each address, or 9 a minute for each address",
		`{id: a, by: [ip], deny_all: true}`:                                                            "denies all",
		`{id: a, by: [ip], limit: 5, window: 1h, store: critical, mode: shadow}`:                       "5 an hour for each address (store critical)",
		`{id: a, deny_all: true, store: critical}`:                                                     "denies all",
	} {
		set, err := rule.Parse(rule.File{Name: "r.yaml", Data: []byte("rules:\n  - " + text + "\n")})
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got := InWords(set)[0].Sentences; len(got) != 1 || got[0] != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

// A rule that moves to another store is a change of its limits, although no number changes.
func TestMoveToAnotherStoreIsAChange(t *testing.T) {
	of := func(fields string) *rule.Set {
		set, err := rule.Parse(rule.File{Name: "r.yaml", Data: []byte("rules:\n  - {id: a, by: [ip], limit: 5, window: 1h" + fields + "}\n")})
		if err != nil {
			t.Fatal(err)
		}
		return set
	}
	changes, _ := LimitChanges(of(", store: default"), of(", store: critical, mode: shadow"), 9)
	want := LimitChange{Rule: "a", Was: "5/h", Is: "5/h (store critical) (mode shadow)", WasWords: "5 an hour for each address", IsWords: "5 an hour for each address (store critical) (mode shadow)"}
	if len(changes) != 1 || changes[0] != want {
		t.Errorf("%+v", changes)
	}
	if changes, _ := LimitChanges(of(""), of(", store: default"), 9); changes != nil {
		t.Errorf("%+v", changes)
	}
}
