package impact

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/rule"
)

// live holds rules that decide requests, a sample that observes them, and a
// clock that the test advances.
type live struct {
	t      *testing.T
	set    *rule.Set
	store  stint.Store
	sample *Sample
	time   time.Time
}

func newLive(t *testing.T, rules string) *live {
	t.Helper()
	l := &live{t: t, set: parsed(t, rules), time: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	l.store = stint.NewMemory(stint.MemoryOptions{Clock: func() time.Time { return l.time }})
	l.sample = New(func() time.Time { return l.time })
	return l
}

func parsed(t *testing.T, rules string) *rule.Set {
	t.Helper()
	set, err := rule.Parse(rule.File{Name: "rules.yaml", Data: []byte(rules)})
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func (l *live) request(key string) { l.t.Helper(); l.cost(key, 1) }

func (l *live) cost(key string, cost int64) {
	l.t.Helper()
	a := rule.Map{"api_key": key, "path": "/", "ip": "192.0.2.1"}
	o, err := l.set.Decide(context.Background(), l.store, a, cost)
	if err != nil {
		l.t.Fatal(err)
	}
	l.sample.Add(l.set.Attributes(), a, cost, &o)
}

func (l *live) newest() (newest entry) {
	for e := range l.sample.events.views().all() {
		newest = *e
	}
	return newest
}

func (l *live) replay(rules string) *Result {
	l.t.Helper()
	r, err := l.sample.Replay(l.t.Context(), l.set, parsed(l.t, rules))
	if err != nil {
		l.t.Fatal(err)
	}
	return r
}

func TestReplaySaysWhomAChangeWouldDeny(t *testing.T) {
	l := newLive(t, "rules: [{id: r, limit: 100, window: 60}]")
	for i := range 600 {
		l.request(fmt.Sprint("sk_live_customer_", i%10))
		l.time = l.time.Add(10 * time.Millisecond)
	}
	for range 60 {
		l.request("sk_live_single_one")
	}
	same := l.replay("rules: [{id: r, limit: 100, window: 60}]")
	if same.Requests != 660 || same.Allowed != 660 || same.Denied != 0 || same.OneIn != 1 || same.Refused(0) {
		t.Errorf("the same rules: %+v", same)
	}
	// 50 of 60 for each of eleven callers, plus the refill of six seconds.
	half := l.replay("rules: [{id: r, limit: 50, window: 600s}]")
	if half.Denied != 11*10 || half.Callers != 11 || !half.Refused(0.16) || half.Refused(0.17) {
		t.Errorf("half: %+v", half)
	}
	if len(half.Rules) != 1 || half.Rules[0].Rule != "r" || len(half.Keys) != mostShown || strings.Contains(fmt.Sprint(half), "customer") {
		t.Errorf("half: %+v", half)
	}
	list := l.replay("deny: [sk_live_single_one]\nrules: [{id: r, limit: 100, window: 60}]")
	if list.Denied != 60 || list.Rules[0].Rule != "" || list.Keys[0].Key != "sk_liv…" {
		t.Errorf("a list: %+v", list)
	}
}

func TestOriginalDenialsAreNoHarm(t *testing.T) {
	l := newLive(t, "rules: [{id: r, limit: 10, window: 3600}]")
	for range 300 {
		l.request("k")
	}
	if got := l.replay("rules: [{id: r, limit: 10, window: 3600}]"); got.Allowed != 10 || got.Denied != 0 || got.Refused(0) {
		t.Errorf("%+v", got)
	}
}

func TestASampleForgets(t *testing.T) {
	l := newLive(t, "rules: [{id: r, limit: 1000/s}]")
	l.request("k")
	l.time = l.time.Add(Window + time.Second)
	l.request("k")
	if got := l.replay("rules: []"); got.Requests != 1 {
		t.Errorf("%+v", got)
	}
}

// All requests of a kept caller are kept. A tenth of each caller's requests
// would look as if nobody were near a limit.
func TestAFloodThinsOutCallersAndNotRequests(t *testing.T) {
	l := newLive(t, "rules: [{id: r, limit: 1000000/s}]")
	const callers, each = 1000, 100
	for range each {
		for i := range callers {
			l.request(fmt.Sprint("caller", i))
		}
		l.time = l.time.Add(10 * time.Millisecond)
	}
	got := l.replay("rules: [{id: r, limit: 50, window: 24h}]")
	if got.OneIn < 4 || got.OneIn > 64 || got.Requests > maxEvents {
		t.Errorf("%+v", got)
	}
	if got.Share < 0.49 || got.Share > 0.51 {
		t.Errorf("half of everyone's requests are over the limit: %+v", got)
	}
	before := l.sample.mask.Load()
	for range 200 {
		l.time = l.time.Add(time.Minute)
		for i := range 100 {
			l.request(fmt.Sprint("caller", i))
		}
	}
	if after := l.sample.mask.Load(); before == 0 || after != 0 {
		t.Errorf("mask %b after the flood, %b long after", before, after)
	}
}

func TestRequestsThatNoRuleCountsAreKept(t *testing.T) {
	l := newLive(t, "rules: [{id: r, match: {path: /other}, limit: 1/s}]")
	for range 200 {
		l.request("k")
	}
	if got := l.replay("rules: [{id: r, limit: 1/s}]"); got.Denied != 199 || !got.Refused(0.05) {
		t.Errorf("%+v", got)
	}
}

func TestHugeRequestsArePassedOver(t *testing.T) {
	l := newLive(t, "rules: [{id: r, by: [path], limit: 1/s}]")
	o := rule.Outcome{}
	l.sample.Add(l.set.Attributes(), rule.Map{"path": strings.Repeat("x", maxBytes+1)}, 1, &o)
	if got := l.replay("rules: []"); got.Requests != 0 {
		t.Errorf("%+v", got)
	}
}

func TestSkippedRequestsAllocateNothing(t *testing.T) {
	l := newLive(t, "rules: [{id: r, limit: 1000000/s}]")
	a := rule.Map{"api_key": "k"}
	o, err := l.set.Decide(context.Background(), l.store, a, 1)
	if err != nil {
		t.Fatal(err)
	}
	l.sample.mask.Store(pause >> 1)
	names := l.set.Attributes()
	if n := testing.AllocsPerRun(100, func() { l.sample.Add(names, a, 1, &o) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
	var none *Sample
	none.Add(names, a, 1, &o)
	if r, err := none.Replay(t.Context(), nil, l.set); r != nil || err != nil || r.Refused(0) {
		t.Error(r, err)
	}
}

func BenchmarkAdd(b *testing.B) {
	set, err := rule.Parse(rule.File{Name: "rules.yaml", Data: []byte("rules: [{id: r, limit: 1000000/s}]")})
	if err != nil {
		b.Fatal(err)
	}
	store := stint.NewMemory(stint.MemoryOptions{})
	a, o, names := rule.Map{"api_key": "sk_live_0123456789", "path": "/v1/orders"}, rule.Outcome{}, set.Attributes()
	for _, with := range []string{"off", "on"} {
		b.Run(with, func(b *testing.B) {
			var s *Sample
			if with == "on" {
				s = New(nil)
				s.mask.Store(pause >> 1) // simulates load
			}
			b.ReportAllocs()
			for b.Loop() {
				if err := set.DecideInto(context.Background(), store, a, 1, &o); err != nil {
					b.Fatal(err)
				}
				s.Add(names, a, 1, &o)
			}
		})
	}
}

// Requests with cost 0 and requests on a deny list cannot be denied by a change
// of limits, so they are not sampled.
func TestPeeksAndThoseOnTheDenyListAreNotKept(t *testing.T) {
	l := newLive(t, "rules: [{id: a, limit: 100/s}]\ndeny: [banned]")
	l.request("banned")
	peek := rule.Map{"api_key": "k", "path": "/", "ip": "192.0.2.1"}
	o, err := l.set.Decide(t.Context(), l.store, peek, 0)
	if err != nil {
		t.Fatal(err)
	}
	l.sample.Add(l.set.Attributes(), peek, 0, &o)
	if r := l.replay("rules: [{id: a, limit: 100/s}]"); r.Requests != 0 {
		t.Errorf("%d are kept", r.Requests)
	}
	l.request("k")
	if r := l.replay("rules: [{id: a, limit: 100/s}]"); r.Requests != 1 || r.Allowed != 1 {
		t.Errorf("%+v", r)
	}
}

func TestKeysOfSeveralPartsAreShortenedPartByPart(t *testing.T) {
	for key, want := range map[string]string{
		"":                                       "…",
		"sk_live_12345":                          "sk_l…",
		"sk_live_123456789012345678901234567890": "sk_live_…",
		stint.JoinKey("abc", "2001:db8:aaaa:bbbb::"): "a…|2001:d…",
		"\x01203.0.113.9": "203…",
		"käse\xff":        "k…",
	} {
		if got := Shorten(key); got != want {
			t.Errorf("%q: %s, want %s", key, got, want)
		}
	}
}
