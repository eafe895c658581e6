package gateway

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	"github.com/stintdev/stint/internal/testserver"
	"github.com/stintdev/stint/resilience/adaptive"
)

// windows records what a gate measures. Each response that counts is a window.
type windows []adaptive.Window

func (w *windows) Next(limit float64, seen adaptive.Window) float64 {
	*w = append(*w, seen)
	return limit
}

// Answers that the gateway writes itself do not count as load, however fast they are. The answer
// to a timeout of an upstream does count.
func TestOnlyUpstreamsSayHowBusyTheyAre(t *testing.T) {
	answering := func(status int) *url.URL {
		return urlOf(t, serve(t, "http", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) })).URL)
	}
	hangs := make(chan struct{})
	silent := serve(t, "http", http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-hangs }))
	t.Cleanup(func() { close(hangs) })
	broken, _ := rude(t, "no answer of HTTP\r\n\r\n")
	for _, c := range []struct {
		name         string
		upstream     *url.URL
		method, path string
		want         int // status of the response
		calls        int // calls that counted as load
		dropped      int
	}{
		{"answers", answering(200), http.MethodGet, "/", 200, 1, 0},
		{"refuses", answering(503), http.MethodGet, "/", 503, 1, 1},
		{"tooSlow", urlOf(t, silent.URL), http.MethodGet, "/", 504, 1, 1},
		{"gone", urlOf(t, "http://"+testserver.FreeAddr(t)), http.MethodGet, "/", 503, 0, 0},
		{"broken", broken, http.MethodGet, "/", 502, 0, 0},
		{"refused", answering(200), http.MethodGet, "/a/../../b", 400, 0, 0},
		{"noProxy", answering(200), http.MethodConnect, "/", 405, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			var seen windows
			now := time.Unix(0, 0)
			gate, err := adaptive.New(adaptive.Options{Algorithm: &seen, Window: 1, Clock: func() time.Time { now = now.Add(time.Second); return now }})
			if err != nil {
				t.Fatal(err)
			}
			o := toServers(c.upstream)
			if c.want == http.StatusGatewayTimeout {
				o.Groups[0].ResponseHeaderTimeout = 10 * time.Millisecond
			}
			g := newGateway(t, o)
			w, r := httptest.NewRecorder(), httptest.NewRequestWithContext(bounded(t), c.method, "/", nil)
			r.URL.Path = c.path
			adaptive.Middleware{Gate: gate}.Wrap(g).ServeHTTP(w, r)
			calls, dropped := 0, 0
			for _, window := range seen {
				calls, dropped = calls+window.Calls, dropped+window.Failures
			}
			if w.Code != c.want || calls != c.calls || dropped != c.dropped || gate.Usage().InFlight != 0 {
				t.Errorf("status %d, %d calls, %d dropped, %+v", w.Code, calls, dropped, gate.Usage())
			}
		})
	}
}
