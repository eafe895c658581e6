package ruleedit

import (
	"testing"

	"github.com/stintdev/stint/rule"
)

func TestLimitsAreSaidInSentences(t *testing.T) {
	for text, want := range map[string]string{
		`{id: a, by: [api_key], limit: 100, window: 1m, capacity: 200}`:                             "100 a minute for each API key, bursts to 200",
		`{id: a, by: [ip], limit: 5, window: 1h}`:                                                   "5 an hour for each address",
		`{id: a, by: [api_key, path], limit: 5, window: 90s}`:                                       "5 in 1m30s for each API key and path",
		`{id: a, by: ["header:X-Plan"], limit: 5, window: 30m}`:                                     "5 in 30m for each header x-plan",
		`{id: a, by: [ip], algorithm: fixed_window, limit: 5, window: 1m}`:                          "5 a minute for each address, in windows that begin at fixed times",
		`{id: a, by: [ip], algorithm: sliding_window_log, limit: 5, window: 1m}`:                    "5 a minute for each address, in any window",
		`{id: a, by: [ip], algorithm: sliding_window_counter, limit: 5, window: 1m}`:                "5 a minute for each address, in any window by an estimate",
		`{id: a, by: [ip], algorithm: leaky_bucket, limit: 5, window: 1m}`:                          "5 a minute for each address, evenly",
		`{id: a, by: [ip], algorithm: quota, limit: 5, period: month}`:                              "5 in each month for each address",
		`{id: a, by: [ip], refill_rate: "1.67", capacity: 9}`:                                       "1.67 a second for each address, bursts to 9",
		`{id: a, by: [ip], limits: [{limit: 1, window: 1s}, {limit: 9, window: 1m}]}`:               "1 a second for each address, and 9 a minute for each address",
		`{id: a, by: [ip], combine: any, limits: [{limit: 1, window: 1s}, {limit: 9, window: 1m}]}`: "1 a second for each address, or 9 a minute for each address",
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
