package replay

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/stintdev/stint"
)

// recording returns JSON lines of 1000 events a second with many keys, out of
// order within the jitter.
func recording(events, keys int, jitter int64) []byte {
	var text bytes.Buffer
	random := rand.New(rand.NewPCG(1, 2))
	for i := range events {
		at := 1_431_857_103_000_001 + int64(i)*1000
		if jitter > 0 {
			at -= random.Int64N(jitter)
		}
		u := random.Float64()
		key := int(float64(keys) * u * u * u)
		fmt.Fprintf(&text, `{"t_us":%d,"key":"user:%d","cost":1,"ip":"10.%d.%d.%d","method":"GET","path":"/v1/orders/%d"}`+"\n",
			at, key, key>>16&255, key>>8&255, key&255, key%1000)
	}
	return text.Bytes()
}

// BenchmarkJSONL replays whole recordings under a limit of ten a minute by IP
// and writes every decision. Its unit is events a second.
func BenchmarkJSONL(b *testing.B) {
	limit, err := stint.ParseLimit("10/m")
	if err != nil {
		b.Fatal(err)
	}
	const events = 200_000
	for _, traffic := range []struct {
		name   string
		jitter int64
	}{{"inOrder", 0}, {"outOfOrder", 30_000_000}} {
		text := recording(events, 10_000, traffic.jitter)
		for _, how := range []struct {
			name    string
			options Options
		}{
			{"limit", Options{Limit: limit, By: "ip"}},
			{"rules", Options{Rules: ruleSet(b, fmt.Sprintf(tenAMinuteByIP, "token_bucket"))}},
		} {
			b.Run(how.name+"/"+traffic.name, func(b *testing.B) {
				o := how.options
				o.Reorder, o.Decisions = DefaultReorder, io.Discard
				b.ReportAllocs()
				for b.Loop() {
					if s, err := Run(b.Context(), o, Input{Name: "recording", Reader: bytes.NewReader(text)}); err != nil || s.Events != events {
						b.Fatal(err, s.Events)
					}
				}
				b.ReportMetric(float64(events)*float64(b.N)/b.Elapsed().Seconds(), "events/s")
			})
		}
	}
}

const fourRules = `rules:
  - {id: a, by: [ip], limit: 10, window: 60}
  - {id: b, by: [api_key], limit: 100, window: 1h}
  - {id: c, match: {path_prefix: /v1/orders}, by: [api_key], limit: 20, window: 60}
  - {id: d, by: [ip, path], limit: 5, window: 10}
`

// BenchmarkFourRules measures what a report of several rules costs: without and with what each
// denies alone, and compared with other rules. Its unit is events a second.
func BenchmarkFourRules(b *testing.B) {
	const events = 200_000
	text := recording(events, 10_000, 0)
	set := ruleSet(b, fourRules)
	for _, how := range []struct {
		name    string
		options Options
	}{{"plain", Options{Rules: set}}, {"alone", Options{Rules: set, Alone: true}}, {"against", Options{Rules: set, Against: ruleSet(b, fourRules)}}} {
		b.Run(how.name, func(b *testing.B) {
			how.options.Reorder = DefaultReorder
			b.ReportAllocs()
			for b.Loop() {
				if s, err := Run(b.Context(), how.options, Input{Name: "recording", Reader: bytes.NewReader(text)}); err != nil || s.Events != events {
					b.Fatal(err, s.Events)
				}
			}
			b.ReportMetric(float64(events)*float64(b.N)/b.Elapsed().Seconds(), "events/s")
		})
	}
}

// In the steady state an event needs no allocation. A replay allocates only for
// its keys, its window and the blocks of its input.
func TestEventsDoNotAllocate(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds with the race detector")
	}
	limit, err := stint.ParseLimit("10/m")
	if err != nil {
		t.Fatal(err)
	}
	measure := func(events int) float64 {
		text := recording(events, 1, 1000)
		return testing.AllocsPerRun(3, func() {
			if _, err := Run(t.Context(), Options{Limit: limit, By: "ip", Reorder: DefaultReorder, Decisions: io.Discard}, Input{Reader: bytes.NewReader(text)}); err != nil {
				t.Fatal(err)
			}
		})
	}
	few, many := measure(20_000), measure(60_000)
	if each := (many - few) / 40_000; each > 0.05 {
		t.Errorf("one more event costs %.3f allocations, want none of its own", each)
	}
}
