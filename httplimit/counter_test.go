package httplimit

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
	"time"

	"github.com/stintdev/stint"
)

func TestCounterCountsByIdentity(t *testing.T) {
	for name, c := range map[string]struct {
		options Options
		peer    string
		headers []string
		target  string
		want    string
	}{
		"unless said, the address":         {Options{}, "203.0.113.9:1", nil, "/", "ip:203.0.113.9"},
		"IPv6 by its /64":                  {Options{}, "[2001:db8:1:2:3:4:5:6]:1", nil, "/", "ip:2001:db8:1:2::/64"},
		"or as set":                        {Options{IPv6Prefix: 48}, "[2001:db8:1:2:3:4:5:6]:1", nil, "/", "ip:2001:db8:1::/48"},
		"or whole":                         {Options{IPv6Prefix: 128}, "[2001:db8::6]:1", nil, "/", "ip:2001:db8::6/128"},
		"the API key":                      {Options{By: []string{"api_key"}}, "203.0.113.9:1", []string{"X-API-Key: a"}, "/", "api_key:a"},
		"the address where there is none":  {Options{By: []string{"api_key"}}, "203.0.113.9:1", nil, "/", "ip:203.0.113.9"},
		"an API key is never an address":   {Options{By: []string{"api_key"}}, "203.0.113.9:1", []string{"X-API-Key: ip:203.0.113.9"}, "/", "api_key:ip:203.0.113.9"},
		"several together":                 {Options{By: []string{"ip", "path"}}, "[2001:db8::6]:1", nil, "/v1//%6Frders/", "ip:2001:db8::/64\x00path:/v1/orders"},
		"the address where one is missing": {Options{By: []string{"path", "api_key"}}, "203.0.113.9:1", nil, "/", "ip:203.0.113.9"},
		"all without any, together":        {Options{By: []string{"api_key"}}, "@", nil, "/", "shared"},
	} {
		t.Run(name, func(t *testing.T) {
			r := httptest.NewRequest("GET", c.target, nil)
			r.RemoteAddr, r.Header = c.peer, from("", c.headers...).Header
			if got, err := counting(t, fixed(t), c.options).PartKey(0, NewRequest(r, nil)); got != c.want || err != nil {
				t.Errorf("key %q, %v; want %q", got, err, c.want)
			}
		})
	}
}

func TestKeyThatCannotBeIsABadRequest(t *testing.T) {
	handler := mustLimit(t, fixed(t), Options{By: []string{"query:user"}}).Wrap(http.NotFoundHandler())
	if w := request(handler, "/?user=a%00b"); w.Code != 400 {
		t.Errorf("a control character: %d; want 400", w.Code)
	}
}

func TestOfSeveralLimitsTheDecidingOneAnswers(t *testing.T) {
	limiter := fixed(t, stint.Spec{Name: "minute", Limit: 2, Window: time.Minute},
		stint.Spec{Name: "hour", Limit: 3, Window: time.Hour})
	handler := mustLimit(t, limiter, Options{Dialect: IETF}).Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for n, want := range []string{`"orders/minute";r=1;t=30`, `"orders/minute";r=0;t=30`, `"orders/minute";r=0;t=30`} {
		h := request(handler, "/").Header()
		if got := h.Get("RateLimit"); got != want {
			t.Errorf("request %d: RateLimit %s; want %s", n, got, want)
		}
		if got := h.Get("RateLimit-Policy"); got != `"orders/minute";q=2;w=60, "orders/hour";q=3;w=3600` {
			t.Errorf("request %d: RateLimit-Policy %s", n, got)
		}
	}
}

func TestPoliciesThatDenyAreMarked(t *testing.T) {
	limiter := fixed(t, stint.Spec{Name: "minute", Limit: 1, Window: time.Minute}, stint.Spec{Name: "hour", Limit: 5, Window: time.Hour})
	c := counting(t, limiter, Options{Cost: func(*Request) int64 { return 1 }})
	var a Answer
	for range 2 {
		var err error
		if a, err = c.Decide(t.Context(), NewRequest(httptest.NewRequest("GET", "/", nil), nil)); err != nil {
			t.Fatal(err)
		}
	}
	if a.Allowed() || !a.Policies[0].Exceeded || a.Policies[1].Exceeded || c.policies[0].Exceeded {
		t.Errorf("allowed %v, policies %+v, kept %+v; want the first marked in the answer alone", a.Allowed(), a.Policies, c.policies)
	}
}

func TestCostIsWhatTheRequestSays(t *testing.T) {
	m := mustLimit(t, fixed(t), Options{Cost: func(r *Request) int64 { return r.ContentLength }})
	for cost, want := range map[int64]int{-1: 400, 0: 200, 2: 200, 3: 429} {
		w, r := httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil)
		r.ContentLength = cost
		m.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})).ServeHTTP(w, r)
		if w.Code != want {
			t.Errorf("cost %d: %d; want %d", cost, w.Code, want)
		}
		if cost == 3 && w.Header().Get("Retry-After") != "" {
			t.Errorf("a cost that never fits: Retry-After %s", w.Header().Get("Retry-After"))
		}
	}
}

func TestTrustedProxySpeaksForItsClients(t *testing.T) {
	handler := mustLimit(t, fixed(t), Options{Trust: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}}).Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for n, c := range []struct {
		client string
		want   int
	}{{"203.0.113.1", 200}, {"203.0.113.1", 200}, {"203.0.113.1", 429}, {"203.0.113.2", 200}} {
		w, r := httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil) // from 192.0.2.1
		r.Header.Set("X-Forwarded-For", c.client)
		if handler.ServeHTTP(w, r); w.Code != c.want {
			t.Errorf("request %d: %d; want %d", n, w.Code, c.want)
		}
	}
}

func request(h http.Handler, target string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", target, nil))
	return w
}

func BenchmarkMiddleware(b *testing.B) {
	second := stint.Spec{Limit: 100_000_000, Window: time.Second}
	hour := stint.Spec{Limit: 1_000_000_000, Window: time.Hour, Algorithm: stint.FixedWindow}
	nothing := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	for _, c := range []struct {
		name    string
		decider Decider
	}{
		{"no limit applies", answers{answer: pass()}},
		{"one limit by ip", counting(b, fixed(b, second), Options{})},
		{"one limit by api key", counting(b, fixed(b, second), Options{By: []string{"api_key"}})},
		{"two limits by ip", counting(b, fixed(b, second, hour), Options{})},
		{"denied", answers{answer: Answer{Decision: denied(), Policies: []Policy{orders(b)}}}},
	} {
		b.Run(c.name, func(b *testing.B) {
			handler := asking(b, c.decider, Options{}).Wrap(nothing)
			r := httptest.NewRequest("GET", "/v1/orders", nil)
			r.Header.Set("Authorization", "Bearer sk_prod_0001")
			w := &discard{h: http.Header{}}
			b.ReportAllocs()
			for b.Loop() {
				clear(w.h)
				handler.ServeHTTP(w, r)
			}
		})
	}
}

// discard is a ResponseWriter that costs nothing.
type discard struct{ h http.Header }

func (d *discard) Header() http.Header         { return d.h }
func (d *discard) Write(p []byte) (int, error) { return len(p), nil }
func (d *discard) WriteHeader(int)             {}
