package replay

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stintdev/stint"
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
		report := func(store func(now func() time.Time) stint.Store) []byte {
			o := Options{Rules: set, Alone: true, ShowKeys: true, Reorder: time.Duration(seed%3) * 100 * time.Millisecond, Store: store}
			_, s := replayed(t, o, inputsOf(text)...)
			for i := range s.PerRule {
				if c := &s.PerRule[i]; c.Alone == 0 && c.Rule != "costly" {
					t.Errorf("%s denies nothing alone", c.Rule)
				}
			}
			whole, err := json.MarshalIndent(&s, "", " ")
			if err != nil {
				t.Fatal(err)
			}
			return whole
		}
		shared := report(nil)
		separate := report(func(now func() time.Time) stint.Store { return hiddenStore{memoryStore(now)} })
		if !bytes.Equal(shared, separate) {
			t.Errorf("seed %d: shared counters give\n%s\nand separate ones\n%s", seed, shared, separate)
		}
	}
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
