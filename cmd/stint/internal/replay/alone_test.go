package replay

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/rule"
)

// hiddenStore hides that a store is a memory store, so that no counters are copied from it.
type hiddenStore struct{ stint.Store }

const aloneRules = `
tiers:
  free: {limit: 3/s}
  pro: {limit: 9/s, burst: 12}
deny: ["192.0.2.66"]
rules:
  - {id: everything, by: [ip], limit: 4/s}
  - {id: tiers, by: [api_key], tier: "*", algorithm: gcra}
  - {id: several, by: [api_key, path], limits: [{name: short, algorithm: fixed_window, limit: 2, window: 1s}, {name: long, algorithm: sliding_window_log, limit: 20, window: 1m}], override: {k1: {limits: [{name: short, limit: 5, window: 1s}]}}}
  - {id: either, match: {methods: [GET]}, by: [user], combine: any, limits: [{limit: 2, window: 1s}, {algorithm: sliding_window_counter, buckets: 6, limit: 9, window: 1m}]}
  - {id: closed, match: {path: /closed}, by: [ip], deny_all: true}
  - {id: watched, mode: shadow, match: {path: /b}, by: [ip], deny_all: true}
  - {id: counted, mode: shadow, by: [ip], limit: 5, window: 10s}
  - {id: named, by: [user], missing: deny, limit: 50/m}
  - {id: costly, by: [ip], cost: 2, algorithm: leaky_bucket, limit: 30, window: 10s, queue: 5}
`

// aloneEvents are events of few callers, many of which some of aloneRules deny, with refunds,
// peeks, changes of tier and disorder.
func aloneEvents(seed uint64, events int) string {
	r := rand.New(rand.NewPCG(seed, 1))
	var b strings.Builder
	at := int64(1_772_521_925_000_000)
	for range events {
		at += r.Int64N(120_000)
		user := ""
		if r.IntN(30) > 0 {
			user = fmt.Sprintf(`,"user":"u%d"`, r.IntN(4))
		}
		cost := [...]int64{1, 1, 1, 1, 1, 1, 2, 0, -1}[r.IntN(9)]
		fmt.Fprintf(&b, `{"t_us":%d,"ip":"192.0.2.%d","api_key":"k%d","tier":%q,"method":%q,"path":%q,"cost":%d%s}`+"\n", at-r.Int64N(300_000),
			[...]int{1, 1, 1, 2, 3, 66}[r.IntN(6)], r.IntN(5), [...]string{"free", "pro", "none"}[r.IntN(3)],
			[...]string{"GET", "PUT"}[r.IntN(2)], [...]string{"/a", "/a", "/b", "/c", "/closed"}[r.IntN(5)], cost, user)
	}
	return b.String()
}

// Counters that a key has of its own only from a request on that others denied give the same
// report as counters of its own for every key from the first request on.
func TestSharedCountersGiveTheReportOfSeparateOnes(t *testing.T) {
	set := ruleSet(t, aloneRules)
	for seed := range uint64(6) {
		text := aloneEvents(seed, 4000)
		report := func(store func(now func() time.Time) stint.Store) string {
			o := Options{Rules: set, Alone: true, ShowKeys: true, Reorder: time.Duration(seed%3) * 100 * time.Millisecond, Store: store}
			_, s := replayed(t, o, inputsOf(text)...)
			for i := range s.PerRule {
				if c := &s.PerRule[i]; c.Alone == 0 && c.Rule != "costly" {
					t.Errorf("%s denies nothing alone", c.Rule)
				}
			}
			return asJSON(t, &s)
		}
		shared := report(nil)
		separate := report(func(now func() time.Time) stint.Store { return hiddenStore{memoryStore(now)} })
		if shared != separate {
			t.Errorf("seed %d: shared counters give\n%s\nand separate ones\n%s", seed, shared, separate)
		}
	}
}

// randomLimit returns a limit of any algorithm, in the form of a rule file.
func randomLimit(r *rand.Rand, name string) string {
	limit, window := 1+r.IntN(6), []string{"1s", "2500ms", "10s", "1m"}[r.IntN(4)]
	numbers := fmt.Sprintf("limit: %d, window: %s", limit, window)
	if name != "" {
		numbers = "name: " + name + ", " + numbers
	}
	switch r.IntN(8) {
	case 0:
		return fmt.Sprintf("%s, algorithm: gcra, burst: %d", numbers, 1+r.IntN(9))
	case 1:
		return numbers + ", algorithm: fixed_window"
	case 2:
		return numbers + ", algorithm: sliding_window_log"
	case 3:
		return fmt.Sprintf("%s, algorithm: sliding_window_counter, buckets: %d", numbers, 1+r.IntN(8))
	case 4:
		return fmt.Sprintf("%s, algorithm: leaky_bucket, queue: %d", numbers, r.IntN(6))
	case 5:
		return strings.Replace(numbers, "window: "+window, "algorithm: quota, period: day", 1)
	}
	return fmt.Sprintf("%s, algorithm: token_bucket, capacity: %d", numbers, 1+r.IntN(9))
}

// randomRule returns a rule with any of the features that change what a request charges.
func randomRule(r *rand.Rand, n int) string {
	one := func(of ...string) string { return of[r.IntN(len(of))] }
	text := fmt.Sprintf("  - {id: r%d, by: [%s]", n, one("ip", "api_key", "user", "path", "ip, path", "tier"))
	text += one("", "", "", ", mode: shadow", ", mode: \"off\"")
	text += one("", "", ", match: {methods: [GET]}", ", match: {path: /b}", ", match: {path_prefix: /c}", ", match: {api_key_pattern: \"k*\"}")
	text += one("", "", ", missing: deny", ", missing: skip", ", missing: shared")
	text += one("", "", "", "", ", deny: [192.0.2.2]", ", allow: [192.0.2.1]", ", allow: [k1]", ", deny: [k3]")
	tier := one("", "", "", "", "free", "pro")
	if tier != "" {
		text += ", tier: " + tier
	}
	if r.IntN(9) == 0 {
		return text + ", deny_all: true}\n"
	}
	switch r.IntN(5) {
	case 0:
		text += one("", ", combine: any") + fmt.Sprintf(", limits: [{%s}, {%s}]", randomLimit(r, "one"), randomLimit(r, "two"))
		text += one("", ", override: {k1: {limits: [{name: one, limit: 9}]}}")
	case 1: // by tier or default
	default:
		text += ", " + randomLimit(r, "")
		text += one("", "", ", override: {k1: {limit: 1}, k2: {limit: 50}}", ", override: {192.0.2.1: {limit: 2}}", ", cost: 2", ", cost: weight")
	}
	return text + "}\n"
}

// randomRules returns a rule set.
func randomRules(r *rand.Rand) string {
	text := "tiers:\n  free: {limit: 3, window: 1s}\n  pro: {limit: 9, window: 1s, capacity: 12}\n  log: {algorithm: sliding_window_log, limit: 4, window: 2s}\n"
	text += []string{"", "defaults: {limit: 4, window: 2s}\n"}[r.IntN(2)]
	text += []string{"", "", "deny: [192.0.2.3]\n", "allow: [192.0.2.4, k2]\n"}[r.IntN(4)]
	text += "rules:\n"
	for n := range 1 + r.IntN(5) {
		text += randomRule(r, n)
	}
	return text
}

// randomEvents returns events of few callers, with refunds, peeks, costs, disorder, and a clock that
// jumps.
func randomEvents(r *rand.Rand, events int) string {
	var b strings.Builder
	at, mean := int64(1_772_521_925_000_000), []int64{20_000, 300_000, 3_000_000}[r.IntN(3)]
	disorder := []int64{1, 500_000, 20_000_000}[r.IntN(3)]
	cheap := r.IntN(2) == 0
	for range events {
		at += r.Int64N(mean)
		if r.IntN(100) == 0 {
			at += []int64{-30_000_000, 3600_000_000, -3600_000_000, 100_000_000_000}[r.IntN(4)]
		}
		fmt.Fprintf(&b, `{"t_us":%d,"method":%q,"path":%q`, at-r.Int64N(disorder), []string{"GET", "PUT"}[r.IntN(2)], []string{"/a", "/b", "/c", "/c/d"}[r.IntN(4)])
		if r.IntN(20) > 0 {
			fmt.Fprintf(&b, `,"ip":"192.0.2.%d"`, 1+r.IntN(5))
		}
		if r.IntN(5) > 0 {
			fmt.Fprintf(&b, `,"api_key":"k%d"`, r.IntN(5))
		}
		if r.IntN(3) > 0 {
			fmt.Fprintf(&b, `,"user":"u%d"`, r.IntN(4))
		}
		if r.IntN(3) > 0 {
			fmt.Fprintf(&b, `,"tier":%q`, []string{"free", "pro", "log", "none"}[r.IntN(4)])
		}
		if r.IntN(3) > 0 {
			fmt.Fprintf(&b, `,"weight":%d`, r.IntN(4))
		}
		if !cheap && r.IntN(3) == 0 {
			cost := []int{0, -1, -2, 2, 3, 100}[r.IntN(6)]
			fmt.Fprintf(&b, `,"cost":%d`, cost)
			if cost < 0 && r.IntN(2) == 0 {
				fmt.Fprintf(&b, `,"at_us":%d`, at-r.Int64N(3_000_000))
			}
		}
		b.WriteString("}\n")
	}
	return b.String()
}

// The counts of rules that random sets have alone equal those of counters of their own for every
// key, and what a replay of each rule by itself denies.
func TestSharedCountersOfRandomRules(t *testing.T) {
	sets := 0
	for seed := range uint64(120) {
		r := rand.New(rand.NewPCG(seed, 22))
		text := randomRules(r)
		set, err := rule.Parse(rule.File{Name: "rules.yaml", Data: []byte(text)})
		if err != nil { // it denies everything, or has buckets that do not divide its window
			continue
		}
		sets++
		o := Options{Alone: true, ShowKeys: true, Reorder: time.Duration(r.IntN(3)) * 500 * time.Millisecond}
		events := randomEvents(r, 300)
		report := func(set *rule.Set, store func(now func() time.Time) stint.Store) (string, Report) {
			one := o
			one.Rules, one.Store = set, store
			_, s := replayed(t, one, inputsOf(events)...)
			return asJSON(t, &s), s
		}
		shared, s := report(set, nil)
		if separate, _ := report(set, func(now func() time.Time) stint.Store { return hiddenStore{memoryStore(now)} }); shared != separate {
			t.Errorf("seed %d: shared counters give\n%s\nand separate ones\n%s\nunder\n%s", seed, shared, separate, text)
		}
		for _, c := range s.PerRule {
			if _, only := report(set.Only(set.Rule(c.Rule)), nil); only.PerRule[0].Denied != c.Alone {
				t.Errorf("seed %d: %s denies %d alone, want %d, under\n%s", seed, c.Rule, c.Alone, only.PerRule[0].Denied, text)
			}
		}
	}
	if sets < 60 {
		t.Errorf("only %d of the sets are valid", sets)
	}
}

func asJSON(t *testing.T, s *Report) string {
	t.Helper()
	text, err := json.MarshalIndent(s, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Lines that cannot be read and events that the rules refuse are reported in the order in which
// they are met, although two goroutines meet them.
func TestBadLinesAreInOrder(t *testing.T) {
	set := ruleSet(t, "rules: [{id: a, by: [ip], limit: 1/m}]")
	var text strings.Builder
	for i := range 400 {
		switch {
		case i == 3 || i == 130:
			text.WriteString("no line\n")
		case i == 2 || i == 4 || i > 200 && i < 220:
			fmt.Fprintf(&text, `{"t_us":%d,"ip":"no address"}`+"\n", 1_772_521_925_000_000+i)
		default:
			fmt.Fprintf(&text, `{"t_us":%d,"ip":"192.0.2.1"}`+"\n", 1_772_521_925_000_000+i)
		}
	}
	_, s := replayed(t, Options{Rules: set}, inputsOf(text.String())...)
	var lines []int64
	for _, bad := range s.UnreadableLines {
		lines = append(lines, bad.Line)
	}
	// All lines of a block are read before the first of its events is decided.
	if got := fmt.Sprint(lines); s.Unreadable != 23 || s.Events != 377 || got != "[4 131 3 5 202]" {
		t.Errorf("%d unreadable, %d events, lines %s", s.Unreadable, s.Events, got)
	}
}
