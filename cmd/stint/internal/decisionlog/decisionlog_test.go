package decisionlog

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/rule"
)

// memorySink keeps lines, and fails while it is full.
type memorySink struct {
	lines bytes.Buffer
	room  int // bytes; below 0: any number
}

func (s *memorySink) WriteLines(lines []byte) (int, error) {
	if s.room < 0 || len(lines) <= s.room {
		s.lines.Write(lines)
		s.room -= len(lines)
		return countLines(lines), nil
	}
	whole := lines[:bytes.LastIndexByte(lines[:s.room], '\n')+1]
	s.lines.Write(whole)
	s.room = 0
	return countLines(whole), errors.New("no space left on device")
}

func (*memorySink) Close() error { return nil }

func ruleSet(t testing.TB, text string) *rule.Set {
	t.Helper()
	set, err := rule.Parse(rule.File{Name: "rules.yaml", Data: []byte(text)})
	if err != nil {
		t.Fatal(err)
	}
	return set
}

const twoRules = `
rules:
- {id: a, match: {path_prefix: /a}, by: [api_key], algorithm: fixed_window, limit: 1, window: 1h}
- {id: b, match: {path_prefix: /b}, by: [api_key], algorithm: fixed_window, limit: 1, window: 1h}
`

// fixture is a log with a store and a clock of its own.
type fixture struct {
	*Recorder

	t     testing.TB
	set   *rule.Set
	store stint.Store
	sink  *memorySink
	now   time.Time
}

func newFixture(t testing.TB, rules string, o Options) *fixture {
	t.Helper()
	f := &fixture{t: t, set: ruleSet(t, rules), sink: &memorySink{room: -1}, now: time.Unix(1_767_225_600, 0)}
	f.store = stint.NewMemory(stint.MemoryOptions{KeepAll: true, Clock: func() time.Time { return f.now }})
	o.Now, o.Sink = func() time.Time { return f.now }, f.sink
	f.Recorder = New(o).Rules(f.set)
	return f
}

// decide decides a request and records the decision.
func (f *fixture) decide(a rule.Map) bool {
	f.t.Helper()
	o, err := f.set.Decide(f.t.Context(), f.store, a, 1)
	if err != nil {
		f.t.Fatal(err)
	}
	f.Record(a, 1, &o, "")
	return o.Allowed()
}

// end writes what remains and returns all lines.
func (f *fixture) end() (lines []map[string]any) {
	f.t.Helper()
	done := make(chan struct{})
	close(done)
	f.log.Run(done)
	for line := range strings.Lines(f.sink.lines.String()) {
		var m map[string]any
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			f.t.Fatalf("%s: %v", line, err)
		}
		lines = append(lines, m)
	}
	if allowed, denied := f.log.Written(); int(allowed+denied) != len(lines) {
		f.t.Errorf("%d and %d are written, the sink has %d lines", allowed, denied, len(lines))
	}
	return lines
}

func (f *fixture) dropped(ruleID, reason string) (n uint64) {
	for _, d := range f.log.Dropped() {
		if d.Rule == ruleID && (reason == "" || d.Reason == reason) {
			n += d.Count
		}
	}
	return n
}

func TestALineHasTheDecisionAndNoIdentityWhole(t *testing.T) {
	f := newFixture(t, `
tiers: {pro: {api_key_pattern: "sk_pro_*", limit: 1, window: 60}}
rules:
- {id: orders, match: {path_prefix: /v1/}, by: [api_key, "header:x-tenant"], algorithm: fixed_window}
- {id: trial, mode: shadow, by: [ip], algorithm: fixed_window, limit: 1, window: 1h}
`, Options{Sample: Sample{Share: 1}, Key: KeyOf([]byte{7})})
	const secret, tenant, address = "sk_pro_0123456789abcdef", "tenant-0123456789", "203.0.113.77"
	a := rule.Map{"api_key": secret, "header:x-tenant": tenant, "ip": address, "method": "GET", "host": "api.example.com",
		"path": "/v1/" + secret + "/x-" + secret + ".json/sk_pro_other/" + tenant + "/plain?key=" + secret}
	f.decide(a)
	f.now = f.now.Add(time.Second)
	f.decide(a)
	lines := f.end()
	if len(lines) != 2 {
		t.Fatalf("%d lines", len(lines))
	}
	got := lines[1]
	for name, want := range map[string]any{
		"t_us": 1767225601e6, "key": "sk_pro_…|tenan…", "method": "GET", "host": "api.example.com", "path": "/v1/…/…/…/…/plain",
		"cost": 1.0, "rule": "orders", "limit_name": "fixed_window:1m", "allowed": false, "limit": 1.0, "remaining": 0.0,
		"retry_after_us": 59e6, "degraded": false, "sample_rate": 1.0,
	} {
		if got[name] != want {
			t.Errorf("%s is %v, want %v", name, got[name], want)
		}
	}
	for name, want := range map[string]string{"limits": "[orders/fixed_window:1m trial/fixed_window:1h]", "shadow_deny": "[trial]"} {
		if fmt.Sprint(got[name]) != want {
			t.Errorf("%s is %v, want %s", name, got[name], want)
		}
	}
	text := f.sink.lines.String()
	for _, plain := range []string{secret, tenant, address, "sk_pro_other"} {
		if strings.Contains(text, plain) {
			t.Errorf("the log has %s:\n%s", plain, text)
		}
	}
	if ip, _ := got["ip"].(string); !strings.HasPrefix(ip, "fd") {
		t.Errorf("ip is %s", ip)
	}
	if id, _ := got["id"].(string); len(id) != 16 || id == got["api_key"] || got["api_key"] != lines[0]["api_key"] {
		t.Errorf("id %v, api_key %v and before %v", got["id"], got["api_key"], lines[0]["api_key"])
	}
}

func TestAllowedRequestsAreSampled(t *testing.T) {
	f := newFixture(t, "rules: []", Options{Sample: Sample{Share: 0.01}})
	o := rule.Outcome{Decision: stint.Decision{Allowed: true}, Binding: -1}
	const n, share = 1_000_000, 0.01
	const bound = 7 // standard deviations, which a right sample exceeds once in 400 thousand million runs
	for range n {
		f.Record(rule.Map{"api_key": "k", "path": "/x"}, 1, &o, "")
	}
	lines := f.end()
	if mean, deviation := n*share, math.Sqrt(n*share*(1-share)); math.Abs(float64(len(lines))-mean) > bound*deviation {
		t.Errorf("%d of %d requests are logged, want %v ± %.0f", len(lines), n, mean, bound*deviation)
	}
	for _, line := range lines[:10] {
		if line["sample_rate"] != share || line["sampled"] != nil {
			t.Errorf("%v", line)
		}
	}
	if f.dropped("", "") != 0 {
		t.Error("lines were dropped")
	}
}

func TestCallersAreSampledWhole(t *testing.T) {
	o := rule.Outcome{Decision: stint.Decision{Allowed: true}, Binding: -1}
	denial := rule.Outcome{Binding: -1, List: rule.ListDeny}
	in := func(key Key) map[string]int {
		f := newFixture(t, "rules: []", Options{Sample: Sample{Share: 0.1, ByCaller: true}, Key: key})
		counts := map[string]int{}
		for i := range 2000 {
			a := rule.Map{"api_key": fmt.Sprint("key-", i)}
			for range 3 {
				f.Record(a, 1, &o, "")
			}
			f.Record(a, 1, &denial, "")
		}
		for _, line := range f.end() {
			if line["sampled"] != (counts[line["id"].(string)] > 0 || line["allowed"] == true) {
				t.Errorf("%v", line)
			}
			if want := map[any]any{true: 0.1, false: 1.0}[line["allowed"]]; line["sample_rate"] != want {
				t.Errorf("%v", line)
			}
			if line["allowed"] == true {
				counts[line["id"].(string)]++
			}
		}
		return counts
	}
	first, again, other := in(KeyOf([]byte{1})), in(KeyOf([]byte{1})), in(KeyOf([]byte{2}))
	if n := len(first); n < 150 || n > 250 {
		t.Errorf("%d of 2000 callers are sampled", n)
	}
	same := 0
	for id, n := range first {
		if n != 3 || again[id] != 3 {
			t.Errorf("%d and %d of the 3 requests of a caller are logged", n, again[id])
		}
		if other[id] > 0 {
			same++
		}
	}
	if same > 0 {
		t.Errorf("%d hashes are the same under another key", same)
	}
}

func TestDenialsAreWrittenOrCounted(t *testing.T) {
	f := newFixture(t, twoRules, Options{Rate: 100, Sample: Sample{Share: 0}})
	denied := map[string]int{}
	var attack sync.WaitGroup
	for range 4 {
		attack.Go(func() {
			for range 5000 {
				o := rule.Outcome{Binding: 0, Hits: []rule.Hit{{Rule: f.set.Rules()[0]}}}
				f.Record(rule.Map{"api_key": "x"}, 1, &o, "")
			}
		})
	}
	attack.Wait()
	denied["a"] = 20000
	for range 20 {
		if !f.decide(rule.Map{"api_key": "k", "path": "/b"}) {
			denied["b"]++
		}
	}
	written := map[any]int{}
	before := 0.0
	for _, line := range f.end() {
		written[line["rule"]]++
		if n, ok := line["dropped_before"].(float64); ok {
			before += n
		}
	}
	for id, n := range denied {
		if got := written[id] + int(f.dropped(id, "")); got != n {
			t.Errorf("rule %s: %d written and %d dropped of %d denied", id, written[id], f.dropped(id, ""), n)
		}
	}
	// Of 100 lines a second, 50 are divided among two rules, the lists and takes.
	if written["a"] != 12+50 || written["b"] != 12 {
		t.Errorf("rule a has %d lines, rule b %d; want 62 and 12", written["a"], written["b"])
	}
	if before != float64(f.dropped("a", ByRate)) {
		t.Errorf("lines say that %v were dropped before them", before)
	}
}

func TestAFullDiskIsCountedAndLoggedOnce(t *testing.T) {
	var log bytes.Buffer
	f := newFixture(t, twoRules, Options{Sample: Sample{Share: 1}, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	w := writer{log: f.log}
	f.sink.room = 1000
	first := f.now // its minute
	f.now = f.now.Add(20 * time.Second)
	for range 3 {
		for range 10 {
			f.decide(rule.Map{"api_key": "k", "path": "/a"})
		}
		w.flush()
	}
	allowed, denied := f.log.Written()
	if allowed != 1 || denied == 0 || denied+f.dropped("a", ByWrite) != 29 {
		t.Errorf("%d allowed, %d denied are written, and %d dropped; want 1 and 29", allowed, denied, f.dropped("a", ByWrite))
	}
	f.sink.room = -1
	f.now = f.now.Add(3 * time.Minute)
	f.decide(rule.Map{"api_key": "k", "path": "/a"})
	w.flush()
	lines := f.end()
	if last := lines[len(lines)-1]; last["dropped_before"] != float64(f.dropped("a", ByWrite)) || last["dropped_since_us"] != float64(first.UnixMicro()) {
		t.Errorf("%v", last)
	}
	if text := log.String(); strings.Count(text, "cannot be written") != 1 || strings.Count(text, "can be written again") != 1 {
		t.Error(text)
	}
}

// The minute of the first drop, and the number of all, survive drops by many at once.
func TestDropsAreCountedWithTheirFirstMinute(t *testing.T) {
	var m missed
	if n, minute := m.take(); n != 0 || minute != 0 {
		t.Error(n, minute)
	}
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			for k := range 1000 {
				m.add(1, uint64(5+i+k))
			}
		})
	}
	group.Wait()
	if n, minute := m.take(); n != 8000 || minute != 5 {
		t.Errorf("%d since minute %d, want 8000 since 5", n, minute)
	}
	m.add(mostCount, mostMinute)
	m.add(7, mostMinute)
	if n, minute := m.take(); n != mostCount || minute != mostMinute {
		t.Errorf("%d since minute %d", n, minute)
	}
	l := New(Options{Now: func() time.Time { return time.Unix(90, 0) }})
	for second, want := range map[int64]uint64{0: 0, 60: 0, 119: 0, 120: 1, 1 << 40: mostMinute} {
		if got := l.minuteOf(time.Unix(second, 0)); got != want {
			t.Errorf("second %d: minute %d, want %d", second, got, want)
		}
	}
}

// Lines of the callers of a canary have the version with it.
func TestLinesNameTheirCanary(t *testing.T) {
	f := newFixture(t, twoRules, Options{Sample: Sample{Share: 1}})
	f.decide(rule.Map{"api_key": "k", "path": "/a"})
	f.OfCanary(7)
	f.decide(rule.Map{"api_key": "k", "path": "/a"})
	if lines := f.end(); len(lines) != 2 || lines[0]["canary"] != nil || lines[1]["canary"] != 7.0 {
		t.Errorf("%v", lines)
	}
}

// Lines that the sink does not take at the end are logged with their number, because nothing reads
// the metrics any more.
func TestTheEndSaysHowManyLinesAreLost(t *testing.T) {
	var log bytes.Buffer
	f := newFixture(t, twoRules, Options{Sample: Sample{Share: 1}, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	f.sink.room = 0
	for range 3 {
		f.decide(rule.Map{"api_key": "k", "path": "/a"})
	}
	if n := f.log.Waiting(); n != 3 {
		t.Errorf("%d lines wait", n)
	}
	f.end()
	if n := f.log.Waiting(); n != 0 || !strings.Contains(log.String(), "the last lines are lost") || !strings.Contains(log.String(), "lines=3") {
		t.Errorf("%d lines wait, logged %s", n, &log)
	}
}

func TestASlowSinkLosesCountedLines(t *testing.T) {
	f := newFixture(t, twoRules, Options{Sample: Sample{Share: 1}})
	a := rule.Map{"api_key": "k", "path": "/a/" + strings.Repeat("x", 400)}
	o := rule.Outcome{Decision: stint.Decision{Allowed: true}, Binding: -1}
	const n = 20_000
	for range n {
		f.Record(a, 1, &o, "")
	}
	if size := len(f.log.mu.lines); size > maxBuffer {
		t.Errorf("%d bytes wait", size)
	}
	denial := rule.Outcome{Binding: 0, Hits: []rule.Hit{{Rule: f.set.Rules()[0]}}}
	f.Record(a, 1, &denial, "")
	lines := f.end()
	if f.dropped("", OfAllowed) == 0 || len(lines)+int(f.dropped("", OfAllowed)) != n+1 {
		t.Errorf("%d written and %d dropped of %d", len(lines), f.dropped("", OfAllowed), n+1)
	}
	if last := lines[len(lines)-1]; last["allowed"] != false {
		t.Error("allowed requests have taken the room of a denial")
	}
}

func TestSamplesAreParsed(t *testing.T) {
	for text, want := range map[string]Sample{
		"1%": {Share: 0.01}, "0": {}, "100%": {Share: 1}, "0.5": {Share: 0.5}, "2.5%:caller": {Share: 0.025, ByCaller: true},
	} {
		if got, err := ParseSample(text); err != nil || got != want {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	for text, want := range map[string]string{
		"": "is not a share", "1": "", "2": "is not a share", "-1%": "is not a share", "101%": "is not a share", "NaN": "is not a share",
		"1%:key": "is not a known form", "1%:": "is not a known form", "x": "is not a share",
	} {
		if _, err := ParseSample(text); (want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

func TestSegmentsOfPathsThatHideKeysAreMasked(t *testing.T) {
	f := newFixture(t, `rules: [{id: a, match: {api_key_pattern: "sk_pro_*"}, by: [api_key], limit: 1/h}]`, Options{})
	const key = "sk_live_0123456789"
	for path, want := range map[string]string{
		"/v1/orders/17":                       "/v1/orders/17",
		"/" + key:                             "/…",
		"/sk%5Flive%5F0123456789/x":           "/…/x",
		"/sk%255Flive_0123456789":             "/…",
		"/%2525252525":                        "/…",
		"/a;token=" + key + ";b/x":            "/…/x",
		"/sk%5fpro_other":                     "/…",
		"/a;token=sk_pro_other;b/x":           "/…/x",
		"/user:sk%5Fpro_other":                "/…",
		"/user:sk_free_other":                 "/user:sk_free_other",
		"/100%":                               "/100%",
		"/x?key=" + key:                       "/x",
		"/" + strings.Repeat("a/", 600) + key: "/" + strings.Repeat("a/", 511) + "…",
		"/" + strings.Repeat("a", 1020) + key: "/…",
	} {
		if got := f.maskPath(path, key, &rule.Outcome{}); got != want {
			t.Errorf("%.60s: %.60s, want %.60s", path, got, want)
		}
	}
}

func TestTakesAreLoggedWithoutTheNamesThatCallersChoose(t *testing.T) {
	f := newFixture(t, "rules: []", Options{Sample: Sample{Share: 0}})
	limit, err := stint.Spec{Name: "sk_live_planted", Limit: 1, Window: time.Hour, FromCaller: true}.Compile()
	if err != nil {
		t.Fatal(err)
	}
	claims := []stint.Claim{{Key: "customer-4711", Limit: limit, Cost: 1}}
	for _, cost := range []int64{1, 0, -1, stint.Forget} {
		claims[0].Cost = cost
		for _, allowed := range []bool{true, false} {
			f.log.RecordTake(claims, stint.Decision{Allowed: allowed, Limit: 1, At: 5, RetryAfter: time.Second}, "0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331")
		}
	}
	lines := f.end()
	if len(lines) != 1 {
		t.Fatalf("%d lines, want that of the denial: %v", len(lines), lines)
	}
	for name, want := range map[string]any{"t_us": 5.0, "key": "cust…", "rule": Takes, "allowed": false, "limit": 1.0, "retry_after_us": 1e6, "sample_rate": 1.0,
		"trace_id": "0af7651916cd43dd8448eb211c80319c", "span_id": "b7ad6b7169203331"} {
		if lines[0][name] != want {
			t.Errorf("%s is %v, want %v", name, lines[0][name], want)
		}
	}
	if text := f.sink.lines.String(); strings.Contains(text, "planted") || strings.Contains(text, "4711") {
		t.Error(text)
	}
}

func TestIPv6CountsByItsNetwork(t *testing.T) {
	k := KeyOf([]byte("k"))
	a, b, other := counted("2001:db8::1"), counted("2001:db8::2"), counted("2001:db8:0:1::1")
	if a != b || a == other || k.address(a) == k.address(other) || counted("::ffff:192.0.2.1") != "192.0.2.1" || counted("no:address") != "no:address" {
		t.Error(a, b, other)
	}
}

// BenchmarkRecordTake measures the same for a take, of which a call may have thousands.
func BenchmarkRecordTake(b *testing.B) {
	f := newFixture(b, "rules: []", Options{Sample: Sample{Share: 0.01}})
	limit, err := stint.Spec{Limit: 1, Window: time.Hour, FromCaller: true}.Compile()
	if err != nil {
		b.Fatal(err)
	}
	claims := []stint.Claim{{Key: "customer-4711", Limit: limit, Cost: 1}}
	b.ReportAllocs()
	for b.Loop() {
		f.log.RecordTake(claims, stint.Decision{Allowed: true}, "")
		f.log.mu.lines, f.log.mu.of = f.log.mu.lines[:0], f.log.mu.of[:0]
	}
}

// BenchmarkRecord measures what the log adds to an allowed request: to most of them, and to one
// that is in the log.
func BenchmarkRecord(b *testing.B) {
	for name, sample := range map[string]Sample{"request": {Share: 0.01}, "caller": {Share: 0.01, ByCaller: true}, "line": {Share: 1}} {
		b.Run(name, func(b *testing.B) {
			f := newFixture(b, twoRules, Options{Sample: sample})
			f.sink.room = 0
			a := rule.Map{"api_key": "sk_live_0123456789", "path": "/a"}
			o := rule.Outcome{Decision: stint.Decision{Allowed: true}, Binding: 0, Hits: []rule.Hit{{Rule: f.set.Rules()[0], Decision: stint.Decision{Allowed: true}}}}
			b.ReportAllocs()
			for b.Loop() {
				f.Record(a, 1, &o, "")
				f.log.mu.lines, f.log.mu.of = f.log.mu.lines[:0], f.log.mu.of[:0]
			}
		})
	}
}
