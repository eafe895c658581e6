package retry

import (
	"math"
	"net/http"
	"testing"
	"time"
)

var noon = time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)

const forbidden = -1 // no retry

func TestRequestedWait(t *testing.T) {
	const s = time.Second
	for _, c := range []struct {
		name   string
		status int
		header map[string]string
		want   time.Duration
	}{
		{"none", 503, nil, 0},
		{"seconds", 503, map[string]string{"Retry-After": "36"}, 36 * s},
		{"secondsOnAnyStatus", 500, map[string]string{"Retry-After": "36"}, 36 * s},
		{"secondsAmongSpaces", 503, map[string]string{"Retry-After": "\t 36 "}, 36 * s},
		{"zeroSeconds", 503, map[string]string{"Retry-After": "0"}, 0},
		{"secondsBelowZeroAreNone", 503, map[string]string{"Retry-After": "-5"}, 0},
		{"fractionsAreNone", 503, map[string]string{"Retry-After": "1.5"}, 0},
		{"hugeSeconds", 503, map[string]string{"Retry-After": "99999999999999999999999"}, math.MaxInt64},
		{"date", 503, map[string]string{"Retry-After": "Sun, 01 Mar 2026 12:00:30 GMT"}, 30 * s},
		{"dateInThePast", 503, map[string]string{"Retry-After": "Sun, 01 Mar 1970 12:00:30 GMT"}, 0},
		{"dateByTheServersClock", 503, map[string]string{"Retry-After": "Sun, 01 Mar 2026 15:00:30 GMT", "Date": "Sun, 01 Mar 2026 15:00:00 GMT"}, 30 * s},
		{"dateOfOldClients", 503, map[string]string{"Retry-After": "Sunday, 01-Mar-26 12:00:30 GMT"}, 30 * s},
		{"dateOfOldestClients", 503, map[string]string{"Retry-After": "Sun Mar  1 12:00:30 2026"}, 30 * s},
		{"dateOfAnotherZone", 503, map[string]string{"Retry-After": "Sunday, 01-Mar-26 13:00:30 CET"}, 0},
		{"dateByAServersClockInAnotherZone", 503, map[string]string{"Retry-After": "Sun, 01 Mar 2026 12:00:30 GMT", "Date": "Sunday, 01-Mar-26 07:00:00 EST"}, 30 * s},
		{"farDate", 503, map[string]string{"Retry-After": "Fri, 31 Dec 9999 23:59:59 GMT"}, math.MaxInt64},
		{"garbage", 503, map[string]string{"Retry-After": "soon"}, 0},
		{"rateLimit", 429, map[string]string{"RateLimit": `"name";r=0;t=36`}, 36 * s},
		{"rateLimitOn503", 503, map[string]string{"RateLimit": `"name";r=0;t=36`}, 36 * s},
		{"rateLimitOnNoOther", 500, map[string]string{"RateLimit": `"name";r=0;t=36`}, 0},
		{"retryAfterComesFirst", 429, map[string]string{"Retry-After": "2", "RateLimit": `"name";r=0;t=36`}, 2 * s},
		{"retryAfterThatIsNone", 429, map[string]string{"Retry-After": "soon", "RateLimit": `"name";r=0;t=36`}, 36 * s},
		{"pushback", 200, map[string]string{"Grpc-Retry-Pushback-Ms": "1500"}, 1500 * time.Millisecond},
		{"pushbackComesFirst", 503, map[string]string{"Grpc-Retry-Pushback-Ms": "0", "Retry-After": "2"}, 0},
		{"pushbackAmongSpaces", 503, map[string]string{"Grpc-Retry-Pushback-Ms": " 7 "}, 7 * time.Millisecond},
		{"pushbackForbids", 503, map[string]string{"Grpc-Retry-Pushback-Ms": "-1"}, forbidden},
		{"pushbackThatIsNoneForbids", 503, map[string]string{"Grpc-Retry-Pushback-Ms": "soon"}, forbidden},
		{"hugePushbackForbids", 503, map[string]string{"Grpc-Retry-Pushback-Ms": "2147483648"}, forbidden},
	} {
		t.Run(c.name, func(t *testing.T) {
			resp := &http.Response{StatusCode: c.status, Header: http.Header{}}
			for name, value := range c.header {
				resp.Header.Set(name, value)
			}
			wait, retry := RequestedWait(resp, noon)
			if !retry {
				wait = forbidden
			}
			if wait != c.want {
				t.Errorf("got %v, want %v", wait, c.want)
			}
		})
	}
}

func TestTwoPushbacksForbid(t *testing.T) {
	resp := &http.Response{StatusCode: 503, Header: http.Header{pushbackHeader: {"5", "6"}}}
	if _, retry := RequestedWait(resp, noon); retry {
		t.Error("retried")
	}
}

// A gateway may have added a field to that of the server: the retry must not come before
// either.
func TestGreatestOfSeveralRetryAfters(t *testing.T) {
	for _, values := range [][]string{
		{"2", "36"}, {"36", "2"}, {"0", "soon", "36"}, {"2", "Sun, 01 Mar 2026 12:00:36 GMT"},
	} {
		resp := &http.Response{StatusCode: 503, Header: http.Header{"Retry-After": values}}
		if wait, retry := RequestedWait(resp, noon); wait != 36*time.Second || !retry {
			t.Errorf("%q: %v, %v", values, wait, retry)
		}
	}
}

func TestRateLimitOfSeveralLines(t *testing.T) {
	resp := &http.Response{StatusCode: 429, Header: http.Header{"Ratelimit": {`"a";r=9;t=2`, `"b";r=0;t=7`}}}
	if wait, retry := RequestedWait(resp, noon); wait != 7*time.Second || !retry {
		t.Errorf("%v, %v", wait, retry)
	}
}

func TestRateLimitFields(t *testing.T) {
	const none = -1
	for field, want := range map[string]time.Duration{
		`"orders";r=0;t=36`:                36,
		`orders;r=0;t=36`:                  36,
		`"orders"; r=0; t=36`:              36,
		`"a";r=0;t=2, "b";r=9;t=41000`:     2,
		`"a";r=0;t=2,"b";r=0;t=7`:          7,
		`"a";r=3;t=2 , "b";r=9;t=5`:        5, // the cost was more than what is left
		`"a;r=1, \"";r=0;t=3`:              3,
		`"a";pk=:c2VjcmV0:;q=?1;r=0;t=3`:   3,
		`"a";flag;r=0;t=3`:                 3,
		`"a";r=0;t=3;t=4`:                  4,
		`"a";r=0;t=999999999999999999999`:  math.MaxInt64 / time.Second,
		`"a";r=0, "b";r=0;t=1`:             1,
		``:                                 none,
		`,`:                                none,
		`"a"`:                              none,
		`"a";r=0`:                          none,
		`"a";t=3`:                          none,
		`"a";r=0;t=-3`:                     none,
		`"a";r=0;t=3.5`:                    none,
		`"a";r=0;t="3"`:                    none,
		`"a";r=0;t=3,`:                     none,
		`"a";r=0;t=3 x`:                    none,
		`"a";r=0;t=`:                       none,
		`"a";=3`:                           none,
		`"a;r=0;t=3`:                       none,
		`("a");r=0;t=3`:                    none,
		"\"a\x00\";r=0;t=3":                none,
		`"a";k=:unclosed;r=0;t=3`:          none,
		`limit=100, remaining=0, reset=36`: none, // an older draft
		`100`:                              none,
	} {
		wait, ok := parseRateLimit(field)
		if ok != (want != none) || ok && wait/time.Second != want {
			t.Errorf("%q: got %v, %v; want %d s", field, wait, ok, want)
		}
	}
}

// Whatever a server sends, the wait is never below 0. A wait that is written as a
// Retry-After and parsed again stays the same.
func FuzzRequestedWait(f *testing.F) {
	for _, value := range []string{"", "36", "-1", "99999999999999999999", "Sun, 01 Mar 1970 12:00:30 GMT", "Fri, 31 Dec 9999 23:59:59 GMT", `"a";r=0;t=3`, `"a";r=0;t=99999999999999999, b`, `"\`, "\x00", "1e9", "0x10", "٣"} {
		f.Add(429, value, value, value)
	}
	f.Fuzz(func(t *testing.T, status int, after, limit, date string) {
		resp := &http.Response{StatusCode: status, Header: http.Header{"Retry-After": {after}, "Ratelimit": {limit, limit}, "Date": {date}}}
		if wait, retry := RequestedWait(resp, noon); wait < 0 || !retry {
			t.Errorf("%v, %v", wait, retry)
		}
		if wait, ok := parseRateLimit(limit); wait < 0 || !ok && wait != 0 {
			t.Errorf("%v, %v", wait, ok)
		}
		if wait, ok := parseRetryAfter(after, noon); wait < 0 || !ok && wait != 0 {
			t.Errorf("%v, %v", wait, ok)
		}
	})
}

func FuzzPushback(f *testing.F) {
	for _, value := range []string{"", "0", "-1", "1500", "2147483647", "2147483648", "-0", "+5", " 5", "5ms"} {
		f.Add(value)
	}
	f.Fuzz(func(t *testing.T, value string) {
		if wait, retry := ParsePushback(value); wait < 0 || wait > math.MaxInt32*time.Millisecond || !retry && wait != 0 {
			t.Errorf("%v, %v", wait, retry)
		}
	})
}
