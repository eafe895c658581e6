package limitsearch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/cmd/stint/internal/replay"
	"github.com/stintdev/stint/rule"
)

// traffic returns JSON lines of callers of very different rates, in bursts, out
// of order and with some costs.
func traffic(seed uint64, events, callers int, costs bool) string {
	r := rand.New(rand.NewPCG(seed, 1))
	var b strings.Builder
	now := int64(1_772_521_925_000_000)
	for range events {
		now += r.Int64N(r.Int64N(2_000_000) + 1)
		u := r.Float64()
		caller := int(float64(callers) * u * u * u)
		for range 1 + r.IntN(3)*r.IntN(3) {
			cost := int64(1)
			if costs {
				cost = r.Int64N(7) - 1
			}
			fmt.Fprintf(&b, `{"t_us":%d,"key":"caller %d","cost":%d}`+"\n", now-r.Int64N(50_000), caller, cost)
		}
	}
	return b.String()
}

func inputOf(text string) replay.Input {
	return replay.Input{Name: "traffic", Reader: strings.NewReader(text)}
}

func found(t *testing.T, text string, below float64, reorder time.Duration) Report {
	t.Helper()
	report, err := Find(t.Context(), Options{Replay: replay.Options{By: "key", Reorder: reorder}, DenyBelow: below}, inputOf(text))
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// denials replays the traffic under a limit, without its refunds and peeks.
func denials(t *testing.T, text string, limit stint.Limit, reorder time.Duration) Denial {
	t.Helper()
	var kept strings.Builder
	for line := range strings.Lines(text) {
		if !strings.Contains(line, `"cost":0`) && !strings.Contains(line, `"cost":-`) {
			kept.WriteString(line)
		}
	}
	s, err := replay.Sweep(t.Context(), replay.Options{By: "key", Reorder: reorder}, []replay.Swept{{Value: 1, Limit: limit}}, inputOf(kept.String()))
	if err != nil {
		t.Fatal(err)
	}
	v := s.Values[0]
	return Denial{v.Denied, v.ShareDenied, v.CallersDenied, v.ShareCallers}
}

func compiled(t *testing.T, s stint.Spec) stint.Limit {
	t.Helper()
	limit, err := s.Compile()
	if err != nil {
		t.Fatal(err)
	}
	return limit
}

// check checks that a replay of the limit denies what is said, and of one unit
// less too much.
func check(t *testing.T, name, text string, reorder time.Duration, below float64, n int64, said Denial, spec func(int64) stint.Spec) {
	t.Helper()
	if got := denials(t, text, compiled(t, spec(n)), reorder); got != said {
		t.Errorf("%s: a replay of %d says %+v, the search %+v", name, n, got, said)
	}
	if said.ShareDenied >= below || said.ShareCallers >= below {
		t.Errorf("%s: %d denies %+v, not below %v", name, n, said, below)
	}
	if n == 1 {
		return
	}
	if less := denials(t, text, compiled(t, spec(n-1)), reorder); less.ShareDenied < below && less.ShareCallers < below {
		t.Errorf("%s: %d is not the least: %d denies %+v", name, n, n-1, less)
	}
}

// Every answer is what a replay says, and a replay of one unit less denies too
// much.
func TestAnswersAreThoseOfAReplay(t *testing.T) {
	for seed := range uint64(4) {
		for _, below := range []float64{0.001, 0.01, 0.2, 1} {
			for _, reorder := range []time.Duration{0, time.Minute} {
				text := traffic(seed, 1500, 40+400*int(seed%2), seed >= 2)
				r := found(t, text, below, reorder)
				if len(r.Windows) != 4 || len(r.Buckets) == 0 {
					t.Fatalf("%+v", r)
				}
				for _, w := range r.Windows {
					check(t, "fixed window "+w.Name, text, reorder, below, w.FixedWindow.Limit, w.FixedWindow.Denial, func(n int64) stint.Spec {
						return stint.Spec{Algorithm: stint.FixedWindow, Limit: n, Window: w.Window}
					})
					check(t, "log "+w.Name, text, reorder, below, w.SlidingWindowLog.Limit, w.SlidingWindowLog.Denial, func(n int64) stint.Spec {
						return stint.Spec{Algorithm: stint.SlidingWindowLog, Limit: n, Window: w.Window}
					})
				}
				for _, b := range r.Buckets {
					check(t, fmt.Sprintf("bucket of %d a minute", b.Rate), text, reorder, below, b.Burst, b.Denial, func(n int64) stint.Spec {
						return stint.Spec{Limit: b.Rate, Window: time.Minute, Capacity: n}
					})
				}
			}
		}
	}
}

func TestPeaksAndFrontier(t *testing.T) {
	var b strings.Builder
	line := func(t int64, caller int) { fmt.Fprintf(&b, `{"t_us":%d,"key":"%d"}`+"\n", t, caller) }
	for caller := range 100 { // caller n makes n+1 requests across the boundary of a minute
		for i := range int64(caller + 1) {
			line(119_500_000+i*10_000, caller)
		}
	}
	r := found(t, b.String(), 0.05, time.Minute)
	if want := (Percentiles{50, 90, 99, 100, 100}); r.Windows[1].Peaks != want {
		t.Errorf("%+v, want %+v", r.Windows[1].Peaks, want)
	}
	if got := r.Windows[1].SlidingWindowLog.Limit; got != 96 { // 4 callers of 100 exceed it
		t.Errorf("log: %d", got)
	}
	if got := r.Windows[1].FixedWindow.Limit; got != 50 { // the 50 before the boundary: every caller up to 100 has 50 on each side at most
		t.Errorf("fixed: %d", got)
	}
	for i, one := range r.Buckets[1:] {
		if before := r.Buckets[i]; one.Rate <= before.Rate || one.Burst >= before.Burst {
			t.Errorf("not a frontier: %+v", r.Buckets)
		}
	}
	for _, one := range r.Buckets {
		if one.Rate+one.Burst < r.Suggested.Rate+r.Suggested.Burst {
			t.Errorf("%+v admits less than %+v", one, r.Suggested)
		}
	}
}

func TestTheReportEndsWithARule(t *testing.T) {
	r := found(t, traffic(1, 300, 20, false), 0.1, time.Minute)
	var out strings.Builder
	if err := r.WriteText(&out); err != nil {
		t.Fatal(err)
	}
	_, text, ok := strings.Cut(out.String(), "as a rule:\n\n")
	set, err := rule.Parse(rule.File{Name: "suggested.yaml", Data: []byte("rules:\n" + text)})
	if !ok || err != nil || len(set.Rules()) != 1 {
		t.Fatalf("%v\n%s", err, &out)
	}
	for _, want := range []string{"least limit that denies below 10 %", "1d *", "* longer than the log"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("lacks %q:\n%s", want, &out)
		}
	}
	for line := range strings.Lines(out.String()) {
		if len(line) > 81 {
			t.Errorf("%d columns: %s", len(line)-1, line)
		}
	}
	if text, err := json.Marshal(&r); err != nil || !strings.Contains(string(text), `"p99_9":`) || !strings.Contains(string(text), `"burst":`) {
		t.Errorf("%v %s", err, text)
	}
}

func TestNothingToSearchIn(t *testing.T) {
	for name, text := range map[string]string{"empty": "", "refunds": `{"t_us":1,"key":"a","cost":-1}`} {
		r, err := Find(t.Context(), Options{Replay: replay.Options{By: "key"}, DenyBelow: 0.01}, inputOf(text))
		if err != nil || r.Suggested != nil || len(r.Windows) != 0 {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
		if err := r.WriteText(io.Discard); err != nil {
			t.Error(err)
		}
		if text, err := json.Marshal(r); err != nil || !strings.Contains(string(text), `"windows":[],"buckets":[]`) {
			t.Errorf("%v: %s", err, text)
		}
	}
	line := `{"t_us":1,"key":"a","api_key":"a","id":"a","path":"/x","cost":1,"rule":"r","allowed":true,"sample_rate":0.01}`
	if _, err := Find(t.Context(), Options{Replay: replay.Options{By: "key"}, DenyBelow: 0.01}, inputOf(line)); err == nil || !strings.Contains(err.Error(), "is a sample of requests") {
		t.Error(err)
	}
	for _, below := range []float64{0, -1, 1.01} {
		if _, err := Find(t.Context(), Options{Replay: replay.Options{By: "key"}, DenyBelow: below}); err == nil || !strings.Contains(err.Error(), "deny-below: ") {
			t.Errorf("%v: %v", below, err)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if _, err := Find(ctx, Options{Replay: replay.Options{By: "key"}, DenyBelow: 0.01}, inputOf(traffic(1, 10, 2, false))); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// Costs of any size have an answer, or none.
func TestGreatCosts(t *testing.T) {
	var b strings.Builder
	for i := range 50 {
		fmt.Fprintf(&b, `{"t_us":%d,"key":"a","cost":1000000000}`+"\n", 1_772_521_925_000_000+i)
	}
	r := found(t, b.String(), 0.5, time.Minute)
	for _, w := range r.Windows {
		if w.SlidingWindowLog != nil || w.FixedWindow != nil {
			t.Errorf("%+v", w)
		}
	}
	if err := r.WriteText(io.Discard); err != nil || r.Suggested != nil {
		t.Errorf("%v %+v", err, r)
	}
}

// A search that is ended in the reading searches what was read. One that is ended later tells no limits.
func TestEndedSearch(t *testing.T) {
	line := `{"t_us":1772521925000000,"api_key":"sk_live_busy_1234567890"}` + "\n"
	options := Options{Replay: replay.Options{By: "api_key"}, DenyBelow: 0.5, Busiest: 1}

	ctx, end := context.WithCancel(t.Context())
	defer end()
	options.Replay.Hash = func(string) string { end(); return "hash" } // the list of callers is made between reading and search
	report, err := Find(ctx, options, inputOf(line))
	if !errors.Is(err, context.Canceled) || report.CutShort || report.Events != 1 || len(report.Windows) != 0 || report.Suggested != nil {
		t.Errorf("ended in the search: %v: %+v", err, report)
	}

	ctx, end = context.WithCancel(t.Context())
	defer end()
	options.Replay.Hash = nil
	options.Replay.Progress = func(replay.Progress) { end() }
	report, err = Find(ctx, options, inputOf(strings.Repeat(line, 1_000_000)))
	if !errors.Is(err, context.Canceled) || !report.CutShort || report.Events == 0 || report.Events == 1_000_000 || len(report.Windows) != len(windows) {
		t.Errorf("ended in the reading: %v: %d events, %d windows", err, report.Events, len(report.Windows))
	}
}
