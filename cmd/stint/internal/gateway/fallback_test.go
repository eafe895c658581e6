package gateway

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"testing"
	"time"

	"github.com/stintdev/stint/internal/testserver"
	"github.com/stintdev/stint/resilience/breaker"
)

func TestFallbackAnswersWhenNoUpstreamDoes(t *testing.T) {
	page := FallbackOptions{Status: http.StatusOK, Body: `{"items":[]}`, Headers: map[string]string{"Content-Type": "application/json", "X-Fallback": "yes"}}
	sorry := FallbackOptions{Status: http.StatusServiceUnavailable, Body: "back soon"}
	silent := serve(t, http1, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	failing := serve(t, http1, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }))
	broken, _ := rude(t, "no answer of HTTP\r\n\r\n")
	gone := urlOf(t, "http://"+testserver.FreeAddr(t))
	for _, c := range []struct {
		name     string
		upstream *url.URL
		fallback FallbackOptions
		method   string
		header   []string
		status   int
		used     int64
	}{
		{"noUpstreamCanBeReached", gone, page, http.MethodGet, nil, 200, 1},
		{"brokenAnswer", broken, page, http.MethodGet, nil, 200, 1},
		{"timeout", urlOf(t, silent.URL), page, http.MethodGet, nil, 200, 1},
		{"successIsNotForAPOST", gone, page, http.MethodPost, nil, 503, 0},
		{"failureIsForAPOST", gone, sorry, http.MethodPost, nil, 503, 1},
		{"notForAnAnswerOfTheUpstream", urlOf(t, failing.URL), page, http.MethodGet, nil, 502, 0},
		{"notForAClientInAHurry", urlOf(t, silent.URL), page, http.MethodGet, []string{"X-Deadline-Ms", "5"}, 504, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := newGuardedRoutes(t, GroupOptions{Name: "g", Servers: servers(c.upstream), ResponseHeaderTimeout: 50 * time.Millisecond},
				RouteOptions{Group: "g", Fallback: &c.fallback})
			w, r := httptest.NewRecorder(), httptest.NewRequestWithContext(bounded(t), c.method, "/", http.NoBody)
			w.Header().Set("X-RateLimit-Limit", "7") // as the limiter does
			for i := 0; i < len(c.header); i += 2 {
				r.Header.Set(c.header[i], c.header[i+1])
			}
			g.ServeHTTP(w, r)
			if w.Code != c.status || g.counts["fallbacks"].Load() != c.used || w.Header().Get("X-RateLimit-Limit") != "7" || w.Header().Get("X-Request-Id") == "" {
				t.Errorf("got %d %v %s; %d fallbacks", w.Code, w.Header(), w.Body, g.counts["fallbacks"].Load())
			}
			if class := strconv.Itoa(c.status/100) + "xx"; g.counts[class].Load() != 1 {
				t.Errorf("the answer of status %d is not counted as %s", c.status, class)
			}
			if c.used == 1 && (w.Body.String() != c.fallback.Body || c.status == 200 && w.Header().Get("X-Fallback") != "yes" || w.Header().Get("Content-Type") == "") {
				t.Errorf("answered %v %q", w.Header(), w.Body)
			}
		})
	}
}

func TestFallbackAnswersForAnOpenCircuitAtOnce(t *testing.T) {
	upstreams, all := fickles(t, 1)
	upstreams[0].status.Store(http.StatusInternalServerError)
	g := newGuardedRoutes(t, GroupOptions{Name: "g", Servers: all, Breaker: &breaker.Options{MinimumCalls: 2}},
		RouteOptions{Group: "g", Fallback: &FallbackOptions{Status: http.StatusOK, Body: "from the cache"}})
	for client := range 2 {
		g.ask(t, client)
	}
	if w := g.ask(t, 3); w.Code != http.StatusOK || w.Body.String() != "from the cache" || upstreams[0].asked.Load() != 2 {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
}

func TestInvalidFallbacksAreRefused(t *testing.T) {
	for want, o := range map[string]FallbackOptions{
		`gateway: route "/": fallback: status 100 is out of range (use 200 to 599)`:                            {Status: 100},
		`gateway: route "/": fallback: status 204 has no body (use 200)`:                                       {Status: 204, Body: "x"},
		`gateway: route "/": fallback: the body has 65537 bytes (use at most 65536)`:                           {Status: 200, Body: string(make([]byte, maxFallback+1))},
		`gateway: route "/": fallback: Connection belongs to one connection or body (remove it from the list)`: {Status: 200, Headers: map[string]string{"Connection": "close"}},
		`gateway: route "/": fallback: the value of X-A has characters that no header may have (remove them)`:  {Status: 200, Headers: map[string]string{"X-A": "a\nb"}},
	} {
		options := toServers(urlOf(t, "http://127.0.0.1:1"))
		options.Routes = []RouteOptions{{Group: "default", Fallback: &o}}
		if _, err := New(options); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
