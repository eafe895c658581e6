package replay

import (
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/rule"
)

func ruleSet(t testing.TB, text string) *rule.Set {
	t.Helper()
	set, err := rule.Parse(rule.File{Name: "rules.yaml", Data: []byte(text)})
	if err != nil {
		t.Fatal(err)
	}
	return set
}

const severalRules = `
whitelist: ["203.0.113.0/24"]
blacklist: ["sk_revoked_*"]
rules:
  - {id: orders, match: {path_prefix: /v1/orders}, by: [api_key], limit: 1, window: 60}
  - {id: wide, match: {path_prefix: /v1/}, by: [ip], limit: 3, window: 60}
  - {id: watched, mode: shadow, by: [ip], limit: 2, window: 60}
  - {id: either, mode: shadow, by: [ip], combine: any, limits: [{limit: 1, window: 1s}, {limit: 3, window: 1h}]}
  - {id: unused, mode: "off", by: [ip], limit: 2, window: 60}
`

// request returns an event in the first second of 1970 with these members.
func request(members string) string {
	return `{"t_us":0,"ip":"192.0.2.1",` + members + "}\n"
}

func TestHeadersAreTheSameInAnyCase(t *testing.T) {
	events := `{"t_us":0,"header:X-Team":"a"}` + "\n" + `{"t_us":0,"header:x-team":"a","n\\u0061me":1}` + "\n" + `{"t_us":0,"header:X-TEAM":"a","n\\u0061me":1}` + "\n"
	limit := twoASecond(t)
	limit.By = "header:X-Team"
	teams := Options{Rules: ruleSet(t, "rules:\n  - {id: teams, by: [header:X-team], missing: deny, limit: 2, window: 1s}\n"), Reorder: DefaultReorder}
	for _, o := range []Options{limit, teams} {
		if _, s := replayed(t, o, inputsOf(events)...); s.Events != 3 || s.Allowed != 2 || s.Keys != 1 {
			t.Errorf("%d of %d events of %d keys are allowed, want 2 of 3 of 1", s.Allowed, s.Events, s.Keys)
		}
	}
}

func TestRulesDecide(t *testing.T) {
	events := request(`"path":"/v1/orders","api_key":"k1"`) + // counted by orders and wide
		request(`"path":"/v1/orders/7","key":"k1"`) + // key replaces api_key: orders denies
		request(`"path":"/v1/other"`) +
		request(`"path":"/health"`) + // shadow rules only
		`{"t_us":0,"ip":"203.0.113.9","path":"/v1/other"}` + "\n" + // allowed by list
		request(`"path":"/v1/other","api_key":"sk_revoked_1"`) + // denied by list
		request(`"path":"/v1/other","cost":0`) +
		`{"t_us":0,"ip":"nonsense","path":"/v1/other"}` + "\n"
	lines, s := replayed(t, Options{Rules: ruleSet(t, severalRules), Reorder: DefaultReorder, ShowKeys: true}, inputsOf(events)...)
	want := []string{
		`{"n":1,"t_us":0,"rule":"orders","key":"k1","allowed":true,"limit":1,"remaining":0,"retry_after_us":0,"reset_after_us":60000000,"delay_us":0}`,
		`{"n":2,"t_us":0,"rule":"orders","key":"k1","allowed":false,"limit":1,"remaining":0,"retry_after_us":60000000,"reset_after_us":60000000,"delay_us":0}`,
		`{"n":3,"t_us":0,"rule":"wide","key":"192.0.2.1","allowed":true,"limit":3,"remaining":1,"retry_after_us":0,"reset_after_us":40000000,"delay_us":0}`,
		`{"n":4,"t_us":0,"rule":"","key":"","allowed":true,"limit":0,"remaining":0,"retry_after_us":0,"reset_after_us":0,"delay_us":0}`,
		`{"n":5,"t_us":0,"rule":"","key":"","allowed":true,"limit":0,"remaining":0,"retry_after_us":0,"reset_after_us":0,"delay_us":0}`,
		`{"n":6,"t_us":0,"rule":"","key":"","allowed":false,"limit":0,"remaining":0,"retry_after_us":-1,"reset_after_us":0,"delay_us":0}`,
		`{"n":7,"t_us":0,"rule":"wide","key":"192.0.2.1","allowed":true,"limit":3,"remaining":1,"retry_after_us":0,"reset_after_us":40000000,"delay_us":0}`,
	}
	if !slices.Equal(lines, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(lines, "\n"), strings.Join(want, "\n"))
	}
	for i, want := range []RuleCount{
		{Rule: "orders", Mode: "enforce", Events: 2, Allowed: 1, Denied: 1, Attribution: Attribution{Binding: 1, Sole: 1, Alone: -1}},
		{Rule: "wide", Mode: "enforce", Events: 4, Allowed: 4, Attribution: Attribution{Alone: -1}},
		{Rule: "watched", Mode: "shadow", Events: 5, Allowed: 4, Denied: 1, Attribution: Attribution{Sole: 1, Alone: -1}}, // its third charged event exceeded the limit
		{Rule: "either", Mode: "shadow", Events: 5, Allowed: 5, Attribution: Attribution{Alone: -1}},
	} {
		got := s.PerRule[i]
		got.Limits, got.EventsOverTime, got.DeniedOverTime = nil, nil, nil
		if !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
	if s.Events != 7 || s.Allowed != 5 || s.Denied != 2 || s.Keys != 2 || s.Unreadable != 1 || s.UnreadableLines[0].Line != 8 {
		t.Errorf("got %+v", s)
	}
	if !slices.Equal(s.TopKeysDenied, []KeyCount{{"k1", 1}}) {
		t.Errorf("top keys denied are %v", s.TopKeysDenied)
	}
}

// A refund returns what its event was charged, also under a rule that sets its
// own cost.
func TestRulesGiveBack(t *testing.T) {
	for name, test := range map[string]struct {
		rule string
		want []int64 // expected remaining
	}{
		"costOfTheEvent": {"rules:\n  - {id: one, by: [ip], algorithm: fixed_window, limit: 10, window: 60}", []int64{6, 9, 6, 6}},
		"costOfTheRule":  {"rules:\n  - {id: one, by: [ip], cost: 2, algorithm: fixed_window, limit: 10, window: 60}", []int64{8, 10, 8, 8}},
		"ofTwoLimits":    {"rules:\n  - {id: one, by: [ip], limits: [{limit: 10, window: 1m, algorithm: fixed_window}, {limit: 20, window: 1m, algorithm: sliding_window_log}]}", []int64{6, 9, 6, 6}},
	} {
		t.Run(name, func(t *testing.T) {
			events := `{"t_us":1000000,"ip":"192.0.2.1","cost":4}` + "\n" +
				`{"t_us":2000000,"ip":"192.0.2.1","cost":-3,"at_us":1000000}` + "\n" +
				`{"t_us":61000000,"ip":"192.0.2.1","cost":4}` + "\n" +
				`{"t_us":62000000,"ip":"192.0.2.1","cost":-3,"at_us":1000000}` + "\n" // in a past window
			lines, _ := replayed(t, Options{Rules: ruleSet(t, test.rule)}, inputsOf(events)...)
			var got []int64
			for _, d := range readDecided(t, lines) {
				got = append(got, d.Remaining)
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("remaining %v, want %v", got, test.want)
			}
		})
	}
}

// Whatever cost an event carries, a rule with its own cost refunds the amount
// that it charged for one event.
func TestRulesGiveBackTheirOwnCost(t *testing.T) {
	for cost, want := range map[string][]int64{"5": {15, 10, 15, 20}, "units": {14, 8, 14, 15}, "0": {20, 20, 20, 20}} {
		events := request(`"cost":3,"units":6`) + request(`"cost":3,"units":6`) + request(`"cost":-1,"units":6`) + request(`"cost":-9`)
		set := ruleSet(t, "rules: [{id: one, by: [ip], cost: "+cost+", algorithm: fixed_window, limit: 20, window: 60}]")
		lines, _ := replayed(t, Options{Rules: set}, inputsOf(events)...)
		var got []int64
		for _, d := range readDecided(t, lines) {
			got = append(got, d.Remaining)
		}
		if !slices.Equal(got, want) {
			t.Errorf("cost: %s: remaining %v, want %v", cost, got, want)
		}
	}
}

func TestKeysAreShownAsRulesShowThem(t *testing.T) {
	set := ruleSet(t, "rules:\n  - {id: one, by: [api_key, method], limit: 1, window: 60}")
	events := request(`"method":"GET","api_key":"k"`) + request(`"method":"GET"`)
	lines, _ := replayed(t, Options{Rules: set}, inputsOf(events)...)
	got := readDecided(t, lines)
	if got[0].Key != "k|GET" || got[1].Key != "192.0.2.1|GET" {
		t.Errorf("the keys are %q and %q", got[0].Key, got[1].Key)
	}
}

func TestTopKeysDenied(t *testing.T) {
	var events strings.Builder
	for key := range 30 {
		for range 1 + key%15 + 1 {
			fmt.Fprintf(&events, `{"t_us":5,"key":"k%02d"}`+"\n", key)
		}
	}
	limit, err := stint.ParseLimit("1/m")
	if err != nil {
		t.Fatal(err)
	}
	_, s := replayed(t, Options{Limit: limit, By: "key", ShowKeys: true}, inputsOf(events.String())...)
	want := []KeyCount{{"k14", 15}, {"k29", 15}, {"k13", 14}, {"k28", 14}, {"k12", 13}, {"k27", 13}, {"k11", 12}, {"k26", 12}, {"k10", 11}, {"k25", 11}}
	if !slices.Equal(s.TopKeysDenied, want) || s.Keys != 30 {
		t.Errorf("got %v of %d keys, want %v of 30", s.TopKeysDenied, s.Keys, want)
	}
}

func TestKeyTallyCountsEachOnce(t *testing.T) {
	for _, keys := range []int{1, 20_000, 300_000} {
		k := newKeyTally(hasher{maphash.MakeSeed()}, &panics{})
		for i := range 3 * keys {
			k.seen.add(strconv.Itoa(i % keys))
		}
		if k.seen.total() != keys {
			t.Errorf("counted %d keys, want %d", k.seen.total(), keys)
		}
	}
}

// Similar bits go to neighbouring places, also across the end of the table.
func TestKeyPartKeepsBitsThatAreAlike(t *testing.T) {
	for _, bits := range []int{keyBits, countedBits} {
		var p keyPart
		for i := range uint64(1000) {
			kept := 1<<bits - 1 - i
			if _, fresh := p.add(kept, bits); !fresh {
				t.Fatalf("%x is not new", kept)
			}
			if _, fresh := p.add(kept, bits); fresh {
				t.Fatalf("%x is not kept once", kept)
			}
		}
		for i := range uint64(1000) {
			if _, fresh := p.add(1<<bits-1-i, bits); fresh {
				t.Fatalf("%x was forgotten", 1<<bits-1-i)
			}
		}
	}
}

// Counts are exact, also those that are too large for a place.
func TestKeyCounts(t *testing.T) {
	var c keyCounts
	random := rand.New(rand.NewPCG(1, 2))
	want := map[uint64]uint64{}
	for range 300_000 {
		hash := random.Uint64() % 1000 * 0x9e3779b97f4a7c15
		if random.IntN(2) == 0 {
			hash = 7 << 60
		}
		want[hash]++
		if got := c.add(hash); got != want[hash] {
			t.Fatalf("%x was added %d times, want %d", hash, got, want[hash])
		}
	}
	for hash, n := range want {
		if got := c.of(hash); got != n {
			t.Errorf("%x was added %d times, want %d", hash, got, n)
		}
	}
	if c.count != len(want) || c.of(5) != 0 {
		t.Errorf("%d keys, want %d; a key that was not added has %d", c.count, len(want), c.of(5))
	}
}

func TestMaskKey(t *testing.T) {
	for key, want := range map[string]string{"": "…", "ab": "…", "abcdef": "ab…", "sk_live_0123456789abcdef": "sk_live_…", "ééé": "é…"} {
		if got := maskKey(key); got != want {
			t.Errorf("%q is shown as %q, want %q", key, got, want)
		}
	}
}
