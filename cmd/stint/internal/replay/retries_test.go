package replay

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/oracle"
)

// Four requests at once under two a second: a polite client comes again when it
// was told to, and finds that another was faster.
func TestPoliteRetries(t *testing.T) {
	o := twoASecond(t)
	o.Retries = PoliteRetries
	lines, s := replayed(t, o, inputsOf(strings.Repeat(lineAt(10), 4))...)
	var got []string
	for _, d := range readDecided(t, lines) {
		got = append(got, fmt.Sprintf("%d at %d %v", d.N, d.T, d.Allowed))
	}
	want := []string{
		"1 at 10000000 true", "2 at 10000000 true", "3 at 10000000 false", "4 at 10000000 false",
		"3 at 10500000 true", "4 at 10500000 false", "4 at 11000000 true",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s", strings.Join(got, "\n"))
	}
	r := *s.Retries
	if (r != RetrySummary{Retries: "polite", Recorded: 4, Retried: 3, Amplification: 7. / 4, DeniedFirst: 2, ServedLater: 2,
		CallersDenied: 1, CallersServed: 1, WaitP50US: 500_000, WaitP99US: 1_000_000}) {
		t.Errorf("%+v", r)
	}
	if s.Events != 7 || s.Denied != 3 {
		t.Errorf("%+v", s)
	}
}

// A hammering client comes ten times within a second, and gives up.
func TestHammeringRetries(t *testing.T) {
	o := twoASecond(t)
	o.Limit, o.Retries = compiled(t, "1/m"), HammerRetries
	other := strings.Replace(lineAt(10.55), `"a"`, `"b"`, 1)
	lines, s := replayed(t, o, inputsOf(lineAt(10)+lineAt(10.05)+other+lineAt(60.9))...)
	want := append([]int64{1, 2, 2, 2, 2, 2, 2, 3, 2, 2, 2, 2, 2}, slices.Repeat([]int64{4}, 11)...)
	if got := order(t, lines); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	r := s.Retries
	if r.DeniedFirst != 2 || r.GaveUp != 2 || r.ServedLater != 0 || r.Retried != 20 || r.CallersDenied != 1 || r.CallersServed != 0 {
		t.Errorf("%+v", r)
	}
}

func TestClientsGiveUpOnNever(t *testing.T) {
	o := twoASecond(t)
	o.Retries = PoliteRetries
	_, s := replayed(t, o, inputsOf(`{"t_us":1,"key":"a","cost":3}`)...)
	if r := s.Retries; r.GaveUp != 1 || r.Retried != 0 || r.NoRoom != 0 {
		t.Errorf("%+v", r)
	}
}

// Retries are decided in order of time among the recorded events, as a model
// that sorts all requests again after each decision decides them.
func TestRetriesAreInOrder(t *testing.T) {
	for seed := range uint64(20) {
		how := []Retries{PoliteRetries, HammerRetries}[seed%2]
		random := rand.New(rand.NewPCG(seed, 1))
		limit := compiled(t, []string{"3/s", `{"algorithm":"fixed_window","limit":4,"window":"2s"}`, `{"algorithm":"leaky_bucket","limit":2,"window":"1s","queue":3}`}[seed%3])
		var text strings.Builder
		var events []retry
		for i := range 60 {
			at, key, cost := random.Int64N(10_000_000), fmt.Sprint(random.IntN(4)), random.Int64N(4)
			fmt.Fprintf(&text, `{"t_us":%d,"key":"%s","cost":%d}`+"\n", at, key, cost)
			events = append(events, retry{pending{t: at, order: orderOf(0, int64(i+1)), text: key, cost: cost}, at, 0})
		}
		lines, _ := replayed(t, Options{Limit: limit, By: "key", Reorder: time.Minute, Retries: how}, inputsOf(text.String())...)
		want := modelRetries(limit, how, events)
		if got := readDecided(t, lines); !slices.Equal(got, want) {
			t.Fatalf("seed %d: got\n%v, want\n%v", seed, got, want)
		}
	}
}

func modelRetries(limit stint.Limit, how Retries, events []retry) (all []decided) {
	model := oracle.New()
	for len(events) > 0 {
		slices.SortFunc(events, func(a, b retry) int {
			if a.before(b.t, b.order) {
				return -1
			}
			return 1
		})
		next := events[0]
		events = events[1:]
		d := model.Take(next.t, stint.Claim{Key: next.text, Limit: limit, Cost: next.cost})
		all = append(all, decidedBy(&next.pending, "", next.text, d))
		wait := d.RetryAfter
		if how == HammerRetries {
			wait = 100 * time.Millisecond
		}
		if next.attempt++; !d.Allowed && next.cost > 0 && next.attempt <= 10 && wait != stint.Never {
			next.t += wait.Microseconds()
			events = append(events, next)
		}
	}
	return all
}

func TestRetriesOfRules(t *testing.T) {
	set := ruleSet(t, "rules: [{id: r, by: [api_key], limit: 1, window: 1s}]\ndeny: [bad]")
	bad := strings.Replace(lineAt(1), `"a"`, `"bad"`, 1)
	lines, s := replayed(t, Options{Rules: set, Reorder: time.Minute, Retries: PoliteRetries}, inputsOf(lineAt(1)+lineAt(1)+bad)...)
	if r := s.Retries; len(lines) != 4 || r.ServedLater != 1 || r.GaveUp != 1 || r.WaitP50US != 1_000_000 || s.PerRule[0].Events != 3 {
		t.Errorf("%+v\n%s", r, strings.Join(lines, "\n"))
	}
	var table strings.Builder
	if err := s.WriteText(&table); err != nil || !strings.Contains(table.String(), "3 recorded and 1 retries, 1.33 for each recorded one") || !strings.Contains(table.String(), "p50 1s, p99 1s") {
		t.Errorf("%v\n%s", err, &table)
	}
}

func TestRetriesAreBounded(t *testing.T) {
	r := newRetrier(&replay{}, HammerRetries)
	r.waiting = make(retryHeap, mostWaiting)
	r.again(retry{})
	if r.counts.GaveUp != 1 || r.counts.NoRoom != 1 || len(r.waiting) != mostWaiting {
		t.Errorf("%+v", r.counts)
	}
	r = newRetrier(&replay{}, HammerRetries)
	r.bytes = mostWaitingBytes
	r.again(retry{pending: pending{text: "x"}})
	if r.counts.NoRoom != 1 || r.bytes != mostWaitingBytes {
		t.Errorf("%+v", r.counts)
	}
}

func TestThreeDigits(t *testing.T) {
	for n, want := range map[int64]int64{0: 0, 7: 7, 999: 999, 1000: 1000, 1001: 1010, 123_456: 124_000, 999_500: 1_000_000, 999_001: 1_000_000, 998_001: 999_000} {
		if got := threeDigits(n); got != want {
			t.Errorf("%d: %d, want %d", n, got, want)
		}
	}
}

// Retries follow the denials of all rules together. No rule alone, and no other rule set, would
// have caused them.
func TestRetriesBelongToOneRuleSet(t *testing.T) {
	set := ruleSet(t, comparedRules)
	o := Options{Rules: set, Alone: true, Retries: PoliteRetries}
	_, s := replayed(t, o, inputsOf(`{"t_us":1,"ip":"192.0.2.1","path":"/x"}`+"\n")...)
	if s.PerRule[0].Alone != -1 || s.PerRule[1].Alone != -1 {
		t.Errorf("the rules have %+v, want no counts for each alone", s.PerRule)
	}
	o.Against = set
	if _, err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "retries") {
		t.Errorf("the comparison returns %v, want an error", err)
	}
}
