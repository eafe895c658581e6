package replay

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// decisionLine returns a line of a decision log. sample has the members of the sample.
func decisionLine(t int, caller, rule string, allowed bool, sample string) string {
	return fmt.Sprintf(`{"t_us":%d,"key":"sk_p…","id":%q,"api_key":%q,"path":"/x","cost":1,"rule":%q,"allowed":%v,"limit":100,"remaining":0,"degraded":false,"limits":["a/b"],%s}`+"\n",
		t, caller, caller, rule, allowed, sample)
}

const (
	inSample  = `"sample_rate":0.01,"sampled":true`
	denied    = `"sample_rate":1,"sampled":true`
	elsewhere = `"sample_rate":1,"sampled":false`
)

// Callers of a sample are decided anew, each with all of its requests; others are left out.
func TestASampleOfCallersIsDecidedAnew(t *testing.T) {
	events := decisionLine(1, "a", "orders", true, inSample) + decisionLine(2, "a", "orders", false, denied) + decisionLine(3, "b", "orders", true, inSample) +
		decisionLine(4, "c", "orders", false, elsewhere) + decisionLine(5, "b", takesRule, true, inSample) + decisionLine(6, "b", "orders", false, denied) + decisionLine(7, "b", "shop", true, inSample+`,"surface":"envoy"`)
	for name, o := range map[string]Options{
		"rules": {Rules: ruleSet(t, "rules: [{id: orders, by: [api_key], limit: 1, window: 1h}]")},
		"limit": {Limit: twoASecond(t).Limit, By: "key"},
	} {
		_, s := replayed(t, o, inputsOf(events)...)
		l := s.DecisionLog
		if l == nil || l.Lines != 7 || l.ShareOfCallers != 0.01 || l.Callers != 2 || len(l.Weighed) > 0 {
			t.Fatalf("%s: %+v", name, l)
		}
		wantEvents, wantDenied, wantOut := int64(4), int64(2), int64(3)
		if name == "limit" { // takes and Envoy's requests have keys too, and "key" counts by the id; b's third and fourth exceed 2 a second
			wantEvents, wantDenied, wantOut = 6, 2, 1
		}
		if s.Events != wantEvents || s.Denied != wantDenied || l.LeftOut != wantOut || math.Abs(l.Events-100*float64(wantEvents)) > 1e-6 || s.Keys != 2 {
			t.Errorf("%s: %+v, %+v", name, s, l)
		}
		var table strings.Builder
		if err := s.WriteText(&table); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"all decisions of 1 % of the callers: 2 callers", "fewer than 30 callers"} {
			if !strings.Contains(table.String(), want) {
				t.Errorf("%s: the table lacks %q:\n%s", name, want, &table)
			}
		}
	}
}

// Minutes in which the log lacks lines are excluded from what the decisions stand for: from that
// of the line before the gap to that of the line behind it, on all nodes.
func TestMinutesWithGapsAreExcluded(t *testing.T) {
	line := func(minutes float64, caller, sample string) string {
		return decisionLine(int(minutes*minute), caller, "orders", true, sample)
	}
	events := line(0, "a", inSample) + line(0.5, "a", inSample) + line(1, "b", inSample) + // 2 and 1
		line(2, "a", inSample) + line(2.5, "c", inSample) + // excluded, and a gap of minutes follows
		line(7.5, "z", elsewhere+`,"dropped_before":7`) + line(7.6, "a", inSample) + // excluded
		line(8, "a", inSample) + line(9, "b", inSample) // 1 and 1
	other := line(3, "a", inSample) + line(4, "d", inSample) // excluded: the callers came to the other node, too
	o := Options{Rules: ruleSet(t, "rules: [{id: orders, by: [api_key], algorithm: fixed_window, limit: 2, window: 1h}]")}
	for _, o.Reorder = range []time.Duration{0, time.Minute} {
		_, s := replayed(t, o, inputsOf(events, other)...)
		l := s.DecisionLog
		// Of a, the events in minutes with gaps are decided: so the one in minute 8 is denied.
		if l.Gaps != 6 || l.Excluded != 5 || l.Dropped != 7 || l.Callers != 2 || s.Events != 10 || math.Abs(l.Events-500) > 1e-6 || math.Abs(l.Denied-100) > 1e-6 {
			t.Errorf("reordered by %v: %+v of %d events", o.Reorder, l, s.Events)
		}
		var table strings.Builder
		if err := s.WriteText(&table); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"the log lacks 7 lines", "5 events in 6 minutes that lack lines", "500 events, 100 ± ", "denied (20 % ± "} {
			if !strings.Contains(table.String(), want) {
				t.Errorf("the table lacks %q:\n%s", want, &table)
			}
		}
	}
}

// The first line of a file says when its gap began, although the line before it is in the file
// before.
func TestGapsReachIntoTheFileBefore(t *testing.T) {
	line := func(minutes float64, sample string) string {
		return decisionLine(int(minutes*minute), "a", "orders", true, sample)
	}
	before := line(1, inSample) + line(2, inSample) + line(3.5, inSample) // the last is in the gap
	after := line(5.5, inSample+fmt.Sprintf(`,"dropped_before":2,"dropped_since_us":%d`, 3*minute)) + line(6, inSample)
	o := Options{Limit: twoASecond(t).Limit, By: "key"}
	for _, inputs := range [][]Input{inputsOf(before, after), inputsOf(before + after)} {
		_, s := replayed(t, o, inputs...)
		if l := s.DecisionLog; l.Gaps != 3 || l.Excluded != 2 || l.Events != 300 {
			t.Errorf("%+v", l)
		}
	}
	for _, wrong := range []string{"-1", `"x"`, "9223372036854775807"} {
		if _, s := replayed(t, o, inputsOf(line(1, inSample)+line(2, inSample+`,"dropped_before":2,"dropped_since_us":`+wrong))...); s.Unreadable != 1 {
			t.Errorf("%s: %+v", wrong, s)
		}
	}
}

// A gap is found if the line before it, or the one behind it, is in a part that is left out.
func TestGapsReachIntoAPartOfALog(t *testing.T) {
	line := func(minutes float64, sample string) string {
		return decisionLine(int(minutes*minute), "a", "orders", true, sample)
	}
	node := line(1, inSample) + line(5, inSample+`,"dropped_before":2`) + line(7, inSample) + line(11, inSample+`,"dropped_before":3`) + line(20, inSample+`,"dropped_before":4`) +
		line(21, inSample+`,"dropped_before":5`)
	other := line(3, inSample) + line(6, inSample) + line(9, inSample)
	for _, c := range []struct {
		since, until            int64
		gaps, dropped, complete int64
	}{{2, 10, 4 + 3, 5, 1}, {6, 7, 0, 0, 1}, {4, 6, 2, 2, 0}, {6, 11, 4, 3, 1}} {
		o := Options{Limit: twoASecond(t).Limit, By: "key", Since: time.UnixMicro(c.since * minute), Until: time.UnixMicro(c.until * minute)}
		_, s := replayed(t, o, inputsOf(node, other)...)
		if l := s.DecisionLog; l.Gaps != c.gaps || l.Dropped != c.dropped || s.Events-l.Excluded != c.complete {
			t.Errorf("%+v: %+v of %d events", c, l, s.Events)
		}
	}
}

// Gaps that meet are one, in whatever order they are found.
func TestGapsAreJoined(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		tally, want := newLogTally(), map[int64]bool{}
		for range random.IntN(8) {
			g := gap{random.Int64N(40), 0}
			g.last = g.first + random.Int64N(6)
			tally.addGapLocked(g)
			for m := g.first; m <= g.last; m++ {
				want[m] = true
			}
		}
		tally.lines = 1
		if got := tally.reading().Gaps; got != int64(len(want)) {
			t.Errorf("%v: %d minutes, want %d", tally.gaps, got, len(want))
		}
		for m := int64(-1); m < 50; m++ {
			if tally.inGap(m) != want[m] {
				t.Errorf("%v: minute %d: %v", tally.gaps, m, !want[m])
			}
		}
		for i := 1; i < len(tally.gaps); i++ {
			if tally.gaps[i].first <= tally.gaps[i-1].last+1 {
				t.Errorf("%v are not joined", tally.gaps)
			}
		}
	}
}

// A log whose newest lines come first, as some exports have it, is counted in bounded memory.
func TestADescendingLogIsCounted(t *testing.T) {
	tally := newLogTally()
	const minutes = 20_000
	for m := range int64(minutes) {
		tally.count((minutes-m)*minute, uint64(m%3+1), m%2 == 0)
		if len(tally.open) > mostOpen+1 {
			t.Fatalf("%d minutes are open", len(tally.open))
		}
	}
	for m := range tally.open {
		tally.close(m)
	}
	events := 0.0
	for _, c := range tally.callers {
		events += c.events
	}
	if events != minutes || len(tally.callers) != 3 {
		t.Errorf("%v events of %d callers", events, len(tally.callers))
	}
}

// What the decisions stand for are the recorded requests, without the retries of a model.
func TestDecisionLogsStandForRecordedRequests(t *testing.T) {
	o := Options{Rules: ruleSet(t, "rules: [{id: orders, by: [api_key], limit: 1, window: 1s}]"), Reorder: time.Minute, Retries: HammerRetries}
	events := decisionLine(1, "a", "orders", true, inSample) + decisionLine(2, "a", "orders", false, denied) + decisionLine(3, "b", "orders", true, inSample+`,"dropped_before":2`)
	later := decisionLine(5*minute, "b", "orders", true, inSample) + decisionLine(5*minute, "b", "orders", true, inSample)
	_, s := replayed(t, o, inputsOf(events+later)...)
	l, r := s.DecisionLog, s.Retries
	if r.Recorded != 5 || r.Retried == 0 || s.Events != 5+r.Retried || l.Excluded != 3 || math.Abs(l.Events-200) > 1e-6 || math.Abs(l.Denied-100) > 1e-6 || l.Callers != 1 {
		t.Errorf("%+v, %+v, %+v", s, l, r)
	}
}

// A sweep, and all else that reads keys, leaves out the minutes that lack lines, and tells what the
// log lacks.
func TestReadersOfKeysTellOfDecisionLogs(t *testing.T) {
	events := decisionLine(1, "a", "orders", true, inSample) + decisionLine(2, "b", "orders", false, elsewhere) +
		decisionLine(3*minute, "a", "orders", true, `"sample_rate":0.1,"sampled":true,"dropped_before":7`) + decisionLine(3*minute, "a", "orders", false, denied) +
		decisionLine(9*minute, "a", "orders", true, inSample)
	o := Options{By: "key"}
	r, err := Sweep(t.Context(), o, []Swept{{1, twoASecond(t).Limit}}, inputsOf(events)...)
	want := LogReading{Lines: 5, LeftOut: 1, Dropped: 7, Gaps: 4, EventsInGaps: 3, ShareOfCallers: 0.01, GreatestShare: 0.1}
	if err != nil || r.DecisionLog == nil || *r.DecisionLog != want || r.Events != 1 || r.FirstUS != 9*minute {
		t.Fatalf("%v: %+v", err, r)
	}
	var table strings.Builder
	if err := r.WriteText(&table, "limit"); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"all decisions of 1 % of the callers", "1 lines of other callers", "fewer than 30 callers", "the log lacks 7 lines", "1 % of the callers in one part of the log and 10 % in another", "4 minutes that lack lines, with 3 events (75 %)"} {
		if !strings.Contains(table.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, &table)
		}
	}
}

// Events are left out only if they are of the decision log and in a minute that lacks lines. The
// others keep their order, also among several inputs.
func TestOnlyIncompleteMinutesAreLeftOut(t *testing.T) {
	var log, other, want strings.Builder
	for m := range 12 {
		gap, at := "", m*minute+1
		if m == 6 { // the log lacks lines from minute 4 to 6
			gap = fmt.Sprintf(`,"dropped_before":3,"dropped_since_us":%d`, 4*minute+30*oneSecond)
		}
		log.WriteString(decisionLine(at, "a", "orders", true, inSample+gap))
		fmt.Fprintf(&other, `{"t_us":%d,"id":"other"}`+"\n", at+1)
		if m < 4 || m > 6 {
			fmt.Fprintf(&want, "%d ", at)
		}
		fmt.Fprintf(&want, "%d ", at+1)
	}
	for _, reorder := range []time.Duration{0, time.Minute} {
		var got strings.Builder
		r, err := ReadKeys(t.Context(), Options{By: "id", Reorder: reorder}, func(e KeyedEvent) error {
			fmt.Fprintf(&got, "%d ", e.Time)
			return nil
		}, inputsOf(log.String(), other.String())...)
		if err != nil || got.String() != want.String() || r.Events != 21 || r.DecisionLog.EventsInGaps != 3 || r.DecisionLog.Gaps != 3 {
			t.Errorf("%v: %v, %d events, %+v:\n%s\nwant\n%s", reorder, err, r.Events, r.DecisionLog, &got, &want)
		}
	}
}

// Numbers that no server writes make no sum overflow.
func TestNumbersOfDecisionLinesAreBounded(t *testing.T) {
	for _, sample := range []string{`"sample_rate":1e-320`, inSample + `,"dropped_before":-1`, inSample + `,"dropped_before":9223372036854775807`, inSample + `,"dropped_before":"x"`} {
		_, s := replayed(t, Options{Limit: twoASecond(t).Limit, By: "key"}, inputsOf(decisionLine(1, "a", "", true, inSample)+decisionLine(1, "a", "", true, sample))...)
		if s.Unreadable != 1 || s.Events != 1 || s.DecisionLog.Dropped != 0 {
			t.Errorf("%s: %+v", sample, s)
		}
	}
}

// Lines of a sample of requests are weighed, whatever rules are given.
func TestASampleOfRequestsIsWeighed(t *testing.T) {
	var events strings.Builder
	for i := range 100 {
		events.WriteString(decisionLine(i, "a", "orders", true, `"sample_rate":0.01`))
	}
	for i := range 3 {
		events.WriteString(decisionLine(i, "a", "orders", false, `"sample_rate":1`))
	}
	events.WriteString(decisionLine(5, "a", "", true, `"sample_rate":0.01`))
	_, s := replayed(t, Options{Rules: ruleSet(t, "rules: [{id: orders, by: [api_key], limit: 1, window: 1h}]")}, inputsOf(events.String())...)
	l := s.DecisionLog
	if s.Events != 0 || l == nil || l.ShareOfCallers != 0 || len(l.Weighed) != 2 {
		t.Fatalf("%+v, %+v", s, l)
	}
	w := l.Weighed[1]
	if w.Rule != "orders" || math.Abs(w.Allowed-10_000) > 1e-6 || w.Denied != 3 || math.Abs(w.AllowedError-2*math.Sqrt(100*0.99)/0.01) > 1e-6 {
		t.Errorf("%+v", w)
	}
	var table strings.Builder
	if err := s.WriteText(&table); err != nil || !strings.Contains(table.String(), "other rules cannot be tried on it") {
		t.Errorf("%v\n%s", err, &table)
	}
}

// The estimate from a tenth of the callers agrees with what all of them get, within its error,
// in about 19 of 20 samples.
func TestEstimatesAreWithinTheirErrors(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	const callers, share, samples = 2000, 0.1, 40
	requests := make([]int, callers)
	total, exceeding := 0, 0
	for i := range requests {
		requests[i] = 1 + int(random.ExpFloat64()*5)
		total += requests[i]
		exceeding += max(0, requests[i]-5)
	}
	o := Options{Rules: ruleSet(t, "rules: [{id: orders, by: [api_key], algorithm: fixed_window, limit: 5, window: 1h}]")}
	within, shareWithin := 0, 0
	for range samples {
		var events strings.Builder
		for i, n := range requests {
			if random.Float64() < share {
				for range n {
					events.WriteString(decisionLine(1, fmt.Sprint("caller-", i), "orders", true, `"sample_rate":0.1,"sampled":true`))
				}
			}
		}
		_, s := replayed(t, o, inputsOf(events.String())...)
		if math.Abs(s.DecisionLog.Denied-float64(exceeding)) <= s.DecisionLog.DeniedError {
			within++
		}
		if math.Abs(s.ShareDenied-float64(exceeding)/float64(total)) <= s.DecisionLog.ShareDeniedError {
			shareWithin++
		}
	}
	if within < samples*17/20 || shareWithin < samples*17/20 {
		t.Errorf("%d and %d of %d estimates are within their errors", within, shareWithin, samples)
	}
}

func TestSharesOfDecisionLinesAreChecked(t *testing.T) {
	good := decisionLine(1, "a", "orders", true, denied)
	for _, rate := range []string{"0", "2", "-1", `"x"`, `"1"`} {
		_, s := replayed(t, Options{Rules: ruleSet(t, "rules: []")}, inputsOf(good+decisionLine(2, "a", "", true, `"sample_rate":`+rate))...)
		if s.Unreadable != 1 || s.Events != 1 || !strings.Contains(s.UnreadableLines[0].Reason, "sample_rate: ") {
			t.Errorf("%s: %+v", rate, s)
		}
	}
}

// A request without an API key is not counted by its shortened key.
func TestAShortenedKeyIsNoAPIKey(t *testing.T) {
	line := `{"t_us":1,"key":"192.…","id":"5","ip":"fd00::1","path":"/x","rule":"a","allowed":true,` + denied + "}\n"
	_, s := replayed(t, Options{Rules: ruleSet(t, "rules: [{id: a, by: [api_key], missing: skip, limit: 1, window: 1h}]")}, inputsOf(line+line)...)
	if s.Events != 2 || s.Keys != 0 || s.Denied != 0 {
		t.Errorf("%+v", s)
	}
}
