package replay

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/oracle"
	"github.com/stintdev/stint/rule"
)

// recorded is an event as a test writes it.
type recorded struct {
	T     int64  `json:"t_us"`
	Key   string `json:"key"`
	Cost  int64  `json:"cost"`
	At    int64  `json:"at_us,omitempty"`
	Limit any    `json:"limit,omitempty"`

	line int64
}

// decided is a decision line as encoding/json reads it.
type decided struct {
	N          int64  `json:"n"`
	T          int64  `json:"t_us"`
	Rule       string `json:"rule"`
	Key        string `json:"key"`
	Allowed    bool   `json:"allowed"`
	Limit      int64  `json:"limit"`
	Remaining  int64  `json:"remaining"`
	RetryAfter int64  `json:"retry_after_us"`
	ResetAfter int64  `json:"reset_after_us"`
	Delay      int64  `json:"delay_us"`
}

func decidedBy(p *pending, ruleID, key string, d stint.Decision) decided {
	retry := d.RetryAfter.Microseconds()
	if d.RetryAfter == stint.Never {
		retry = -1
	}
	return decided{p.line(), p.t, ruleID, key, d.Allowed, d.Limit, d.Remaining, retry, d.ResetAfter.Microseconds(), d.Delay.Microseconds()}
}

func readDecided(t rapid.TB, lines []string) (all []decided) {
	t.Helper()
	for _, line := range lines {
		in := json.NewDecoder(strings.NewReader(line))
		in.DisallowUnknownFields()
		var d decided
		if err := in.Decode(&d); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		all = append(all, d)
	}
	return all
}

// exactSpecs are limits of every algorithm, each with a variant that has other
// numbers.
var exactSpecs = [...][2]string{
	{`{"limit":5,"window":"1s"}`, `{"limit":3,"window":"1s","burst":7}`},
	{`{"capacity":4,"refill_rate":1.67}`, `{"capacity":2,"refill_rate":0.3}`},
	{`{"algorithm":"gcra","limit":3,"window":"1s","burst":2}`, `{"algorithm":"gcra","limit":7,"window":"1s"}`},
	{`{"algorithm":"fixed_window","limit":4,"window":"1s"}`, `{"algorithm":"fixed_window","limit":2,"window":"1s"}`},
	{`{"algorithm":"sliding_window_counter","limit":6,"window":"1s","buckets":4}`, `{"algorithm":"sliding_window_counter","limit":3,"window":"1s","buckets":4}`},
	{`{"algorithm":"sliding_window_log","limit":4,"window":"1s"}`, `{"algorithm":"sliding_window_log","limit":6,"window":"1s"}`},
	{`{"algorithm":"leaky_bucket","limit":3,"window":"1s","queue":4}`, `{"algorithm":"leaky_bucket","limit":5,"window":"1s","queue":1}`},
	{`{"algorithm":"quota","limit":6,"period":"day"}`, `{"algorithm":"quota","limit":9,"period":"day"}`},
}

func compiled(t rapid.TB, text string) stint.Limit {
	t.Helper()
	limit, err := rule.ParseLimit([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return limit
}

// traffic returns random events of a few keys, with more disorder than the
// window covers.
func traffic(t *rapid.T, span int64, other string) (events []recorded) {
	now := int64(1_431_907_190_000_000) // ten seconds before a midnight
	for i := range rapid.IntRange(1, 80).Draw(t, "events") {
		now += rapid.OneOf(rapid.Int64Range(-1, 400_000), rapid.Int64Range(-3*span, 3*span)).Draw(t, "step")
		e := recorded{T: now, Key: rapid.SampledFrom([]string{"a", "b", "é\""}).Draw(t, "key"), line: int64(i + 1)}
		e.Cost = rapid.OneOf(rapid.Just(int64(1)), rapid.Int64Range(-3, 8)).Draw(t, "cost")
		if e.Cost < 0 && len(events) > 0 {
			e.At = rapid.SampledFrom(events).Draw(t, "taken").T
		}
		if rapid.IntRange(0, 19).Draw(t, "change") == 0 {
			e.Limit = json.RawMessage(other)
		}
		events = append(events, e)
	}
	return events
}

// expected decides events by the exact model, in the specified order.
func expected(events []recorded, span int64, first, other stint.Limit) (all []decided) {
	var read []pending
	for i, e := range events {
		read = append(read, pending{t: e.T, order: orderOf(0, int64(i+1))})
	}
	if span > 0 {
		read = byTheBook(read, span)
	}
	model := oracle.New()
	for _, p := range read {
		e := events[p.line()-1]
		if e.Limit != nil {
			first = other
		}
		d := model.Take(e.T, stint.Claim{Key: e.Key, Limit: first, Cost: e.Cost, At: e.At})
		all = append(all, decidedBy(&p, "", e.Key, d))
	}
	return all
}

func TestDecisionsEqualTheExactModel(t *testing.T) {
	for _, specs := range exactSpecs {
		first, other := compiled(t, specs[0]), compiled(t, specs[1])
		t.Run(first.Algorithm().String(), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				span := rapid.SampledFrom([]int64{0, 1, 1_000_000}).Draw(t, "span")
				events := traffic(t, span+1_000_000, specs[1])
				var text, out strings.Builder
				for _, e := range events {
					line, err := json.Marshal(e)
					if err != nil {
						t.Fatal(err)
					}
					text.Write(append(line, '\n'))
				}
				o := Options{Limit: first, By: "key", Reorder: time.Duration(span) * time.Microsecond, Decisions: &out}
				s, err := Run(t.Context(), o, inputsOf(text.String())...)
				if err != nil || s.Unreadable > 0 {
					t.Fatal(err, s.UnreadableLines)
				}
				got := readDecided(t, strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n"))
				if want := expected(events, span, first, other); !slices.Equal(got, want) {
					t.Fatalf("\ngot  %v\nwant %v\nof\n%s", got, want, &text)
				}
			})
		})
	}
}

// Several inputs give the same order as one input that holds them all.
func TestInputsOfDisorderWithinTheWindowAreOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const span = 1000
		texts := make([]string, 4)
		var all []pending
		for range rapid.IntRange(0, 60).Draw(t, "events") {
			at := int64(len(all))*100 + rapid.Int64Range(0, span).Draw(t, "disorder")
			to := rapid.IntRange(0, len(texts)-1).Draw(t, "input")
			texts[to] += fmt.Sprintf(`{"t_us":%d,"key":"a"}`+"\n", at)
			all = append(all, pending{t: at, order: orderOf(to, int64(strings.Count(texts[to], "\n")))})
		}
		var out strings.Builder
		o := Options{Limit: compiled(t, "5/s"), By: "key", Reorder: span * time.Microsecond, Decisions: &out}
		s, err := Run(t.Context(), o, inputsOf(texts...)...)
		if err != nil || s.Late > 0 {
			t.Fatal(err, s.Late)
		}
		var want []int64
		for _, p := range byTheBook(all, maxTime) {
			want = append(want, p.line())
		}
		var got []int64
		for _, d := range readDecided(t, strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")[:s.Events]) {
			got = append(got, d.N)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("got the lines in order %v, want %v", got, want)
		}
	})
}

// accessLogs are the sample log and, if the environment names one, a real log.
func accessLogs() []string {
	logs := []string{"testdata/sample_access.log"}
	if path := os.Getenv("STINT_ACCESS_LOG"); path != "" {
		logs = append(logs, path)
	}
	return logs
}

const tenAMinuteByIP = `
rules:
  - id: by-ip
    match: {path_prefix: "/"}
    by: [ip]
    algorithm: %s
    limit: 10
    window: 60
`

// A rule of ten a minute by IP decides an access log as the exact model does.
func TestAccessLogsEqualTheExactModel(t *testing.T) {
	for _, path := range accessLogs() {
		for _, algorithm := range []string{"token_bucket", "fixed_window", "sliding_window_counter", "sliding_window_log"} {
			for _, reorder := range []time.Duration{0, 5 * time.Second, DefaultReorder} {
				t.Run(fmt.Sprintf("%s/%s/%v", path, algorithm, reorder), func(t *testing.T) {
					testAccessLog(t, path, algorithm, reorder)
				})
			}
		}
	}
}

func testAccessLog(t *testing.T, path, algorithm string, reorder time.Duration) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	set, err := rule.Parse(rule.File{Name: "ten.yaml", Data: fmt.Appendf(nil, tenAMinuteByIP, algorithm)})
	if err != nil {
		t.Fatal(err)
	}
	lines, s := replayed(t, Options{Rules: set, Reorder: reorder}, Input{Name: path, Reader: strings.NewReader(string(text))})
	want, unread := modelAccessLog(string(text), algorithm, reorder)
	if got := readDecided(t, lines); !slices.Equal(got, want) {
		for i := range got {
			if got[i] != want[i] {
				t.Fatalf("decision %d is\n%+v, want\n%+v", i, got[i], want[i])
			}
		}
		t.Fatalf("%d decisions, want %d", len(got), len(want))
	}
	if s.Unreadable != unread || s.Events != int64(len(want)) {
		t.Errorf("%d events and %d unreadable lines, want %d and %d", s.Events, s.Unreadable, len(want), unread)
	}
}
