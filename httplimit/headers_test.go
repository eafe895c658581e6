package httplimit

import (
	"maps"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stintdev/stint"
)

// testNow is half a second past a whole one: Reset rounds up.
var testNow = time.Unix(1_640_001_600, 500_000_000)

func compile(t testing.TB, s stint.Spec) stint.Limit {
	t.Helper()
	l, err := s.Compile()
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// orders is the policy of a rule that has one limit.
func orders(t testing.TB) Policy {
	spec := stint.PerMinute(100)
	spec.Rule = "orders"
	limit := compile(t, spec)
	return Policy{Name: PolicyName(limit, true), Limit: limit}
}

func allowed() stint.Decision {
	return stint.Decision{Allowed: true, Limit: 100, Remaining: 73,
		ResetAfter: 16200 * time.Millisecond, NextAfter: 11_001 * time.Millisecond}
}

func denied() stint.Decision {
	return stint.Decision{Limit: 100, RetryAfter: 35_000_001 * time.Microsecond,
		ResetAfter: time.Minute, NextAfter: 600 * time.Millisecond}
}

func TestResetCountsFromTheDecision(t *testing.T) {
	const decided = 1_640_001_600_250_000
	for name, c := range map[string]struct {
		at   int64
		want string
	}{
		"endOfAWindowIsNoSecondLater":   {decided, "1640001660"},
		"withoutATimeItIsNow":           {0, "1640001661"},
		"aTimeYetToComeDoesNotAddToNow": {decided + 3_600_000_000, "1640001661"},
	} {
		t.Run(name, func(t *testing.T) {
			d := stint.Decision{Allowed: true, Limit: 100, Remaining: 73, At: c.at, ResetAfter: 59_750 * time.Millisecond, NextAfter: time.Second}
			a := Answer{Decision: d, Policies: []Policy{orders(t)}}
			h := http.Header{}
			a.SetHeaders(h, testNow)
			if got := h.Get("X-RateLimit-Reset"); got != c.want {
				t.Errorf("%q, want %s", got, c.want)
			}
		})
	}
}

func TestEveryDialectHasItsFields(t *testing.T) {
	x := map[string]string{"X-RateLimit-Limit": "100", "X-RateLimit-Remaining": "73", "X-RateLimit-Reset": "1640001617"}
	ietf := map[string]string{"RateLimit-Policy": `"orders";q=100;w=60`, "RateLimit": `"orders";r=73;t=12`}
	standard := maps.Clone(x)
	maps.Copy(standard, ietf)
	for dialect, want := range map[Dialect]map[string]string{
		Standard:   standard,
		IETF:       ietf,
		UnixReset:  {"RateLimit-Limit": "100", "RateLimit-Remaining": "73", "RateLimit-Reset": "1640001617"},
		IETF03:     {"RateLimit-Limit": "100", "RateLimit-Remaining": "73", "RateLimit-Reset": "17"},
		XRateLimit: x,
		None:       {},
	} {
		t.Run(dialect.String(), func(t *testing.T) {
			a := Answer{Decision: allowed(), Policies: []Policy{orders(t)}, Dialect: dialect}
			wantFields(t, &a, want)
		})
	}
}

func TestHeadersOfDecisions(t *testing.T) {
	with := func(d stint.Decision, change func(*Answer)) Answer {
		a := Answer{Decision: d, Policies: []Policy{orders(t)}, Dialect: IETF}
		change(&a)
		return a
	}
	same := func(*Answer) {}
	for name, c := range map[string]struct {
		answer Answer
		want   map[string]string
	}{
		"nothing applied": {Answer{Decision: stint.Decision{Allowed: true}, Binding: -1}, map[string]string{}},
		"a denial says when": {with(denied(), same), map[string]string{
			"RateLimit-Policy": `"orders";q=100;w=60`, "RateLimit": `"orders";r=0;t=36`, "Retry-After": "36", "Cache-Control": "no-store"}},
		"a denial says when in the dialect of none, too": {with(denied(), func(a *Answer) { a.Dialect = None }), map[string]string{
			"Retry-After": "36", "Cache-Control": "no-store"}},
		"a wait of a microsecond is a second": {with(stint.Decision{RetryAfter: 1000}, same), map[string]string{
			"RateLimit-Policy": `"orders";q=100;w=60`, "RateLimit": `"orders";r=0;t=1`, "Retry-After": "1", "Cache-Control": "no-store"}},
		"a whole second is one": {with(stint.Decision{RetryAfter: time.Second}, same), map[string]string{
			"RateLimit-Policy": `"orders";q=100;w=60`, "RateLimit": `"orders";r=0;t=1`, "Retry-After": "1", "Cache-Control": "no-store"}},
		"never has no time": {with(stint.Decision{Limit: 100, RetryAfter: stint.Never, Remaining: 7}, same), map[string]string{
			"RateLimit-Policy": `"orders";q=100;w=60`, "RateLimit": `"orders";r=7`, "Cache-Control": "no-store"}},
		"a rule that denies everything has no quota": {with(stint.Decision{RetryAfter: stint.Never}, same), map[string]string{
			"RateLimit-Policy": `"orders";q=0;w=60`, "RateLimit": `"orders";r=0`, "Cache-Control": "no-store"}},
		"a full allowance cannot grow": {with(stint.Decision{Allowed: true, Remaining: 100}, same), map[string]string{
			"RateLimit-Policy": `"orders";q=100;w=60`, "RateLimit": `"orders";r=100`}},
		"listed": {with(denied(), func(a *Answer) { a.Listed = true }), map[string]string{"Cache-Control": "no-store"}},
		"degraded and allowed": {with(stint.Decision{Allowed: true, Degraded: true}, same), map[string]string{
			"X-RateLimit-Remaining": "-1", "X-RateLimit-Policy": "degraded"}},
		"degraded and denied": {with(stint.Decision{Degraded: true, RetryAfter: time.Second}, func(a *Answer) { a.Dialect = Standard }), map[string]string{
			"X-RateLimit-Remaining": "-1", "X-RateLimit-Policy": "degraded", "Retry-After": "1", "Cache-Control": "no-store"}},
		"degraded in the dialect of none": {with(stint.Decision{Allowed: true, Degraded: true}, func(a *Answer) { a.Dialect = None }), map[string]string{}},
		"unavailable": {with(stint.Decision{RetryAfter: 1500 * time.Millisecond}, func(a *Answer) { a.Unavailable = true }), map[string]string{
			"X-RateLimit-Remaining": "-1", "X-RateLimit-Policy": "degraded", "Retry-After": "2", "Cache-Control": "no-store"}},
	} {
		t.Run(name, func(t *testing.T) { wantFields(t, &c.answer, c.want) })
	}
}

func TestEveryLimitIsInThePolicy(t *testing.T) {
	second := compile(t, stint.Spec{Rule: "all-day", Name: "burst", Limit: 10, Window: 1500 * time.Millisecond})
	day := compile(t, stint.Spec{Rule: "all-day", Algorithm: stint.Quota, Limit: 1000, Period: "day"})
	a := Answer{Decision: allowed(), Binding: 1, Dialect: IETF, Policies: []Policy{
		{Name: PolicyName(second, false), Limit: second}, {Name: PolicyName(day, false), Limit: day}}}
	wantFields(t, &a, map[string]string{
		"RateLimit-Policy": `"all-day/burst";q=10;w=2, "all-day/quota:day";q=1000;w=86400`,
		"RateLimit":        `"all-day/quota:day";r=73;t=12`})
}

func TestResetIsRoundedUp(t *testing.T) {
	for reset, want := range map[time.Duration]int64{
		499_999 * time.Microsecond: 1_640_001_601,
		500_000 * time.Microsecond: 1_640_001_601,
		500_001 * time.Microsecond: 1_640_001_602,
		0:                          1_640_001_601,
	} {
		a := Answer{Decision: stint.Decision{ResetAfter: reset}}
		if got := a.resetAt(testNow); got != want {
			t.Errorf("reset after %v: %d; want %d", reset, got, want)
		}
	}
}

func TestPolicyNameIsAString(t *testing.T) {
	for name, want := range map[string]string{
		"orders":    `"orders"`,
		`a"b\c`:     `"a\"b\\c"`,
		"é\r\n\x7f": `"%C3%A9%0D%0A%7F"`,
		"a b":       `"a b"`,
	} {
		if got := string(appendString(nil, name)); got != want {
			t.Errorf("%q becomes %s; want %s", name, got, want)
		}
	}
}

func TestHeadersReplaceThoseThatWereThere(t *testing.T) {
	h := http.Header{}
	h.Add("X-RateLimit-Limit", "1")
	h.Add("X-RateLimit-Limit", "2")
	a := Answer{Decision: allowed(), Policies: []Policy{orders(t)}}
	a.SetHeaders(h, testNow)
	h.Add("X-RateLimit-Remaining", "appended")
	if got := h.Values("X-RateLimit-Limit"); len(got) != 1 || got[0] != "100" {
		t.Errorf("X-RateLimit-Limit = %q; want 100 alone", got)
	}
	if got := h.Get("X-RateLimit-Reset"); got != "1640001617" {
		t.Errorf("appending to one field changed another: X-RateLimit-Reset = %q", got)
	}
}

func TestJitterNeverShortensAndStaysInItsShare(t *testing.T) {
	for _, c := range []struct {
		wait          time.Duration
		jitter        float64
		least, most   int64
		mustSpreadOut bool
	}{
		{35_000_001 * time.Microsecond, 0.2, 36, 43, true},
		{100 * time.Second, 0.2, 100, 120, true},
		{29_010 * time.Millisecond, 0.2, 30, 35, true},
		{time.Second, 0.2, 1, 1, false},
		{100 * time.Second, 0, 100, 100, false},
		{100 * time.Second, -1, 100, 100, false},
		{100 * time.Second, 7, 100, 200, true},
		{100 * time.Second, math.NaN(), 100, 100, false},
	} {
		seen := map[int64]bool{}
		for range 1000 {
			a := Answer{Decision: stint.Decision{RetryAfter: c.wait}, Jitter: c.jitter}
			seen[a.retrySeconds()] = true
		}
		for got := range seen {
			if got < c.least || got > c.most {
				t.Errorf("wait %v, jitter %v: %d s; want %d to %d", c.wait, c.jitter, got, c.least, c.most)
			}
		}
		if len(seen) > 1 != c.mustSpreadOut {
			t.Errorf("wait %v, jitter %v: %d different times", c.wait, c.jitter, len(seen))
		}
	}
}

func TestDialectNames(t *testing.T) {
	for d := Standard; d <= None; d++ {
		if got, err := ParseDialect(d.String()); got != d || err != nil {
			t.Errorf("ParseDialect(%q) = %v, %v", d.String(), got, err)
		}
	}
	if d, err := ParseDialect(""); d != Standard || err != nil {
		t.Errorf("the empty name is %v, %v; want standard", d, err)
	}
	if _, err := ParseDialect("ietf-3"); err == nil || !strings.Contains(err.Error(), "ietf-03") {
		t.Errorf("an unknown name: error %v; want one that names the known", err)
	}
}

// wantFields checks that an answer sets these fields and no other.
func wantFields(t *testing.T, a *Answer, want map[string]string) {
	t.Helper()
	h := http.Header{}
	a.SetHeaders(h, testNow)
	for name, value := range want {
		if got := h.Get(name); got != value {
			t.Errorf("%s: %q; want %q", name, got, value)
		}
	}
	if len(h) != len(want) {
		t.Errorf("%d fields: %v; want %d", len(h), h, len(want))
	}
}

func TestAnAnswerCarriesFurtherFields(t *testing.T) {
	for name, a := range map[string]Answer{
		"a denial":     {Decision: denied(), Policies: []Policy{orders(t)}},
		"no dialect":   {Decision: allowed(), Policies: []Policy{orders(t)}, Dialect: None},
		"a listed one": {Listed: true},
	} {
		a.Header = http.Header{"X-More": {"1"}, "X-Other": {"a", "b"}}
		h := http.Header{"X-More": {"0"}}
		a.SetHeaders(h, testNow)
		if h.Get("X-More") != "1" || strings.Join(h["X-Other"], "") != "ab" {
			t.Errorf("%s: %v", name, h)
		}
	}
}
