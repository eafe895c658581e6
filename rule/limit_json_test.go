package rule

import (
	"errors"
	"strings"
	"testing"

	"github.com/stintdev/stint"
)

func TestParseLimit(t *testing.T) {
	for data, want := range map[string]string{
		`{"algorithm":"token_bucket","capacity":10,"refill_rate":2}`:                                   "token_bucket, capacity 10, 2 a second",
		`{"algorithm":"token_bucket","limit":100,"window":"1m","burst":20}`:                            "token_bucket:1m 100 per 1m, capacity 20",
		`{"algorithm":"gcra","limit":10,"window":"1s","burst":5}`:                                      "gcra:1s 10 per 1s, capacity 5",
		`{"algorithm":"fixed_window","limit":100,"window":"1m"}`:                                       "fixed_window:1m 100 per 1m",
		`{"algorithm":"sliding_window_counter","limit":100,"window":"1m","buckets":10}`:                "sliding_window_counter:1m 100 per 1m, 10 buckets",
		`{"algorithm":"sliding_window_log","limit":5,"window":"1h"}`:                                   "sliding_window_log:1h 5 per 1h",
		`{"algorithm":"leaky_bucket","limit":10,"window":"1s","queue":20}`:                             "leaky_bucket:1s 10 per 1s, queue 20",
		`{"algorithm":"leaky_bucket","limit":10,"window":"1s","queue":20,"max_wait":"500ms"}`:          "leaky_bucket:1s 10 per 1s, queue 20, waits at most 500ms",
		`{"algorithm":"leaky_bucket","limit":10,"window":1,"queue":20,"max_wait":2}`:                   "leaky_bucket:1s 10 per 1s, queue 20, waits at most 2s",
		`{"algorithm":"quota","limit":1000,"period":"month","utc_offset":"+02:00"}`:                    "quota:month 1000 per month",
		`{"algorithm":"quota","limit":1000,"period":"30d","anchor":"2026-01-31T00:00:00Z","name":"q"}`: "q 1000 per 30d",
		`{"capacity":"100","refill_rate":"1.67","window":"60"}`:                                        "token_bucket:1m, capacity 100, 167/100 a second",
		`{"capacity":100,"refill_rate":1.67}`:                                                          "token_bucket, capacity 100, 167/100 a second",
		` {"limit":1e3,"window":60} `:                                                                  "token_bucket:1m 1000 per 1m, capacity 1000",
		`{"limit":100,"window":"1d"}`:                                                                  "token_bucket:24h 100 per 24h, capacity 100",
		`{"limit":"100/m","burst":5}`:                                                                  "token_bucket:1m 100 per 1m, capacity 5",
		`{"refill_rate":0.1}`:                                                                          "token_bucket, capacity 1, 1/10 a second",
		`"100/m"`:                                                                                      "token_bucket:1m 100 per 1m, capacity 100",
		`100/m`:                                                                                        "token_bucket:1m 100 per 1m, capacity 100",
		" 5/d\n":                                                                                       "token_bucket:24h 5 per 24h, capacity 5",
		`"5\u002fs"`:                                                                                   "token_bucket:1s 5 per 1s, capacity 5",
	} {
		l, err := ParseLimit([]byte(data))
		if err != nil || l.String() != want {
			t.Errorf("%s: %s, %v, want %s", data, l, err, want)
		}
	}
}

func TestParseLimitNamesTheField(t *testing.T) {
	for data, want := range map[string]string{
		``:                          `limit: "" is not a limit`,
		`{`:                         `limit: ends too soon`,
		`{}`:                        `refill_rate: is missing`,
		`[]`:                        `limit: "[]" is not a limit`,
		`null`:                      `limit: "null" is not a limit`,
		`5`:                         `limit: "5" is not a limit`,
		`"100/m`:                    `limit: unexpected end of JSON input`,
		`{"":1}`:                    `limit: has no field ""`,
		`{"limit":100,"windw":60}`:  `limit: has no field "windw" (did you mean window?)`,
		`{"limit":100}`:             `window: is missing beside limit`,
		`{"window":60}`:             `limit: is missing`,
		`{"algorithm":"gcra"}`:      `limit: is missing`,
		`{"limit":0,"window":60}`:   `limit: 0 is out of range`,
		`{"limit":-1,"window":60}`:  `limit: -1 is out of range`,
		`{"limit":1.5,"window":60}`: `limit: 1.5 is not whole`,
		`{"limit":9223372036854775808,"window":60}`:                                       `limit: 9223372036854775808 is out of range`,
		`{"limit":1e999,"window":60}`:                                                     `limit: 1e999 is out of range`,
		`{"limit":1e9999999,"window":60}`:                                                 `limit: "1e9999999" is not a number`,
		`{"limit":"NaN","window":60}`:                                                     `limit: "NaN" is not a number`,
		`{"limit":NaN,"window":60}`:                                                       `limit: invalid character 'N'`,
		`{"limit":1,"limit":2}`:                                                           `limit: is given twice`,
		`{"limit":1,"window":60,"burst":1,"capacity":2}`:                                  `capacity: is given twice`,
		`{"algorithm":"gcra","limit":1,"window":60,"burst":0}`:                            `burst: 0 is out of range`,
		`{"limit":true,"window":60}`:                                                      `limit: is neither a number nor text`,
		`{"limit":null,"window":60}`:                                                      `limit: is neither a number nor text`,
		`{"limit":{"a":1},"window":60}`:                                                   `limit: is neither a number nor text`,
		`{"limit":1,"window":60}{}`:                                                       `limit: other text follows the limit`,
		`{"limit":1,"window":60}x`:                                                        `limit: other text follows the limit`,
		`{"algorithm":"leaky_bucket","limit":1,"window":60,"queue":1,"max_wait":0}`:       `max_wait: 0 is out of range`,
		`{"algorithm":"leaky_bucket","limit":1,"window":60,"queue":1,"max_wait":"1.5us"}`: `max_wait: 1.5us is not whole microseconds`,
		`{"algorithm":"leaky_bucket","limit":1,"window":60,"queue":1,"max_wait":"long"}`:  `max_wait: "long" is not a time`,
		`{"algorithm":"leaky_bucket","limit":1,"window":60,"max_wait":"1s"}`:              `queue: is missing beside max_wait`,
		`{"limit":1,"window":60,"max_wait":"1s"}`:                                         `max_wait: is not a parameter of token_bucket`,
		`{"limit":1,"window":"soon"}`:                                                     `window: "soon" is not a time`,
		`{"limit":1,"window":0}`:                                                          `window: 0 is out of range`,
		`{"limit":1,"window":"-1d5h"}`:                                                    `window: "-1d5h" is not a time`,
		`{"limit":1,"window":"1d-5h"}`:                                                    `window: "1d-5h" is not a time`,
		`{"limit":1,"window":"1ns"}`:                                                      `window: 1ns is out of range`,
		`{"limit":1,"window":"1000001ns"}`:                                                `window: 1000001ns is not whole microseconds`,
		`{"algorithm":"tocken_bucket","limit":1,"window":60}`:                             `algorithm: "tocken_bucket" is not known (did you mean token_bucket?)`,
		`{"algorithm":"fixed_window","limit":1,"window":60,"refill_rate":1}`:              `refill_rate: is not a parameter of fixed_window`,
		`{"algorithm":"fixed_window","limit":1,"window":60,"burst":1}`:                    `capacity: is not a parameter of fixed_window (remove it, or burst, its other name;`,
		`{"name":"a b","limit":1,"window":60}`:                                            `name: "a b" has`,
		`{"limit":1,"window":60,"name":"` + strings.Repeat("x", 5000) + `"}`:              `limit: is 5`,
		`{"limit":1,"window":"99999999999999999999d"}`:                                    `window: "99999999999999999999d" is not a time`,
		`{"limit":1,"window":"4294967295d2562047h"}`:                                      `window: 4294967295d2562047h is out of range`,
	} {
		l, err := ParseLimit([]byte(data))
		var wrong *stint.LimitError
		if !errors.As(err, &wrong) || !strings.HasPrefix(err.Error(), want) || l.Valid() {
			t.Errorf("%.80s:\n got %v\nwant %s", data, err, want)
		}
	}
}

func FuzzParseLimit(f *testing.F) {
	for _, seed := range []string{`100/m`, `"5/s"`, `{"limit":1e3,"window":"1d12h","burst":5}`, `{"algorithm":"quota","limit":1,"period":"30d","anchor":"2026-01-31T00:00:00Z"}`, `{"refill_rate":0.000001,"capacity":1}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		l, err := ParseLimit(data)
		var wrong *stint.LimitError
		switch {
		case err == nil && !l.Valid():
			t.Error("neither limit nor error")
		case err != nil && !errors.As(err, &wrong):
			t.Errorf("%T: %v", err, err)
		case err != nil && (wrong.Problem == "" || wrong.Field == ""):
			t.Errorf("an empty error: %#v", wrong)
		}
	})
}
