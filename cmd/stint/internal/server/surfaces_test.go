package server

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/rule"
)

// shape is one limit, or a group of limits, in the form of each surface. The text is empty for a
// surface that cannot express it.
type shape struct {
	name     string
	limits   []string // limits in the text form of the API and of rules
	envoy    string   // the configuration below rate_limit
	throttle string   // max_burst, count and period of CL.THROTTLE
}

func shapes() []shape {
	return []shape{
		{"token bucket", []string{`{"algorithm":"token_bucket","limit":5,"window":"10s","burst":7}`},
			`{algorithm: token_bucket, window: 10s, requests_per_unit: 5, burst: 7}`, "6 5 10"},
		{"decimal rate", []string{`{"algorithm":"token_bucket","capacity":5,"refill_rate":1.67}`}, "", ""},
		{"gcra", []string{`{"algorithm":"gcra","limit":3,"window":"2s","burst":5}`}, "", "4 3 2"},
		{"fixed window", []string{`{"algorithm":"fixed_window","limit":5,"window":"1m"}`}, `{unit: minute, requests_per_unit: 5}`, ""},
		{"sliding counter", []string{`{"algorithm":"sliding_window_counter","limit":5,"window":"10s"}`},
			`{algorithm: sliding_window_counter, window: 10s, requests_per_unit: 5}`, ""},
		{"ten buckets", []string{`{"algorithm":"sliding_window_counter","limit":5,"window":"10s","buckets":10}`}, "", ""},
		{"sliding log", []string{`{"algorithm":"sliding_window_log","limit":5,"window":"10s"}`},
			`{algorithm: sliding_window_log, window: 10s, requests_per_unit: 5}`, ""},
		{"leaky bucket", []string{`{"algorithm":"leaky_bucket","limit":1000,"window":"1s","queue":4}`}, "", ""},
		{"leaky bucket with a bound", []string{`{"algorithm":"leaky_bucket","limit":1000,"window":"1s","queue":4,"max_wait":"2ms"}`}, "", ""},
		{"quota", []string{`{"algorithm":"quota","limit":5,"period":"day","utc_offset":"+02:00"}`}, "", ""},
		{"group", []string{`{"algorithm":"token_bucket","limit":5,"window":"10s"}`, `{"algorithm":"fixed_window","limit":6,"window":"1m"}`},
			`[{algorithm: token_bucket, window: 10s, requests_per_unit: 5}, {unit: minute, requests_per_unit: 6}]`, ""},
	}
}

// compiled is the limits as handles of the library.
func (s *shape) compiled(t *testing.T) []stint.Limit {
	t.Helper()
	var limits []stint.Limit
	for _, text := range s.limits {
		limit, err := rule.ParseLimit([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		limits = append(limits, limit)
	}
	return limits
}

// givesBack reports whether the library can refund under the limits and then report their state
// as a peek does.
func (s *shape) givesBack() bool {
	return len(s.limits) == 1 && !strings.HasPrefix(s.name, "leaky bucket")
}

// moment is one claim of the given cost, at a time after the previous claim.
type moment struct {
	after time.Duration
	cost  int64
	back  bool // refunds the previous take, if it was admitted
}

func moments() []moment {
	return []moment{
		{0, 0, false}, {0, 1, false}, {0, 3, false}, {0, 2, false}, {0, 9, false}, {0, 0, false},
		{1700 * time.Millisecond, 1, false}, {0, 0, true}, {0, 0, false}, {300 * time.Millisecond, 2, false},
		{1 * time.Second, 0, true}, {0, 5, false}, {7100500 * time.Microsecond, 1, false}, {20 * time.Second, 5, false},
		{0, 1, false}, {60 * time.Second, 4, false}, {0, 1, true}, {25 * time.Hour, 5, false}, {1 * time.Microsecond, 1, false},
	}
}

// question is one claim in the form that each surface is asked.
type question struct {
	shape *shape
	index int // index of the shape
	key   string
	cost  int64
	at    int64 // time of the take that is refunded; 0 for none
}

// decided is the library's decision on a question.
type decided struct {
	combined stint.Decision
	each     []stint.Decision // the decision of each of several limits; nil where they are not known
}

// asker is a surface. Its ask returns the answer that it got and the answer that it wants:
// the decision, as far as this surface shows it.
type asker struct {
	name string
	can  func(s *shape) bool
	back bool // this surface can refund
	late bool // this surface can refund units that were taken before now
	ask  func(t *testing.T, w *world, q question, d decided) (got, want string)
}

// TestEverySurfaceDecidesAlike sends the same claims to every surface, and compares the answers
// with those of the library over another store with the same clock.
func TestEverySurfaceDecidesAlike(t *testing.T) {
	w := newWorld(t)
	all := shapes()
	for i := range all {
		for _, s := range surfaces() {
			if s.can != nil && !s.can(&all[i]) {
				continue
			}
			t.Run(all[i].name+" by "+s.name, func(t *testing.T) {
				r := &reference{limiter: newLimiter(t, w.alone, all[i].compiled(t)), shape: &all[i], key: s.name}
				for n, m := range moments() {
					w.clock.add(m.after)
					w.compare(t, s, r, i, n, m)
				}
			})
		}
	}
}

// compare asks the library and the surface, and compares their answers.
func (w *world) compare(t *testing.T, s asker, r *reference, index, n int, m moment) {
	t.Helper()
	q := question{shape: r.shape, index: index, key: r.key, cost: m.cost}
	if m.back {
		if !s.back || !r.shape.givesBack() || r.taken.Decision.Allowed && !s.late && r.taken.Decision.At != w.clock.time().UnixMicro() {
			return
		}
		q.cost, q.at = -r.cost, r.taken.Decision.At
	}
	d, ok := r.decide(t, m)
	if !ok {
		return
	}
	if got, want := s.ask(t, w, q, d); got != want {
		t.Errorf("claim %d, %+v:\ngot  %s\nwant %s", n, q, got, want)
	}
}

// reference is the library, used for one key.
type reference struct {
	limiter *stint.Limiter
	shape   *shape
	key     string
	taken   stint.Reservation // the last take that can be refunded
	cost    int64             // the cost of the last take
}

// decide reports false for a refund when nothing was taken.
func (r *reference) decide(t *testing.T, m moment) (d decided, ok bool) {
	t.Helper()
	var err error
	switch {
	case m.back && !r.taken.Decision.Allowed:
		return d, false
	case m.back:
		if err = r.taken.Cancel(t.Context()); err == nil {
			d.combined, err = r.limiter.Peek(t.Context(), r.key)
		}
		r.taken = stint.Reservation{}
	case len(r.shape.limits) > 1:
		d.each = make([]stint.Decision, len(r.shape.limits))
		_, d.combined, err = r.limiter.AllowEach(t.Context(), r.key, m.cost, 0, d.each)
	case m.cost == 0:
		d.combined, err = r.limiter.Peek(t.Context(), r.key)
	default:
		r.taken, err = r.limiter.Reserve(t.Context(), r.key, m.cost)
		r.cost, d.combined = m.cost, r.taken.Decision
	}
	if err != nil {
		t.Fatal(err)
	}
	return d, true
}

// rulesOfShapes has one rule for each shape, each below a path of its own. The key of a request
// is its header, or its address if it has no header.
func rulesOfShapes() string {
	var b strings.Builder
	b.WriteString("rules:\n")
	for i, s := range shapes() {
		limits := strings.Join(s.limits, ", ")
		fmt.Fprintf(&b, "  - {id: said-%d, match: {path: /said/%d}, by: [api_key], limits: [%s]}\n", i, i, limits)
		fmt.Fprintf(&b, "  - {id: header-%d, match: {path: /header/%d}, by: [api_key], cost: \"header:x-cost\", limits: [%s]}\n", i, i, limits)
	}
	return b.String()
}

// envoyOfShapes has one descriptor a shape.
func envoyOfShapes(t *testing.T) (folder string) {
	t.Helper()
	var b strings.Builder
	b.WriteString("domain: shapes\ndescriptors:\n")
	for i, s := range shapes() {
		if s.envoy != "" {
			fmt.Fprintf(&b, "  - {key: shape-%d, rate_limit: %s}\n", i, s.envoy)
		}
	}
	folder = t.TempDir()
	writeFile(t, filepath.Join(folder, "shapes.yaml"), b.String())
	return folder
}
