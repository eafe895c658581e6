package gateway

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/stintdev/stint/internal/testserver"
)

func TestARouteChangesHeaders(t *testing.T) {
	var seen http.Header
	var trailer http.Header
	s := serve(t, http1, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		seen, trailer = r.Header, r.Trailer
		w.Header()["Server"] = []string{"secret/1.0"}
		w.Header()["X-Powered-By"] = []string{"a", "b"}
		w.Header().Set("Vary", "Origin")
	}))
	g := newGateway(t, Options{
		Groups: []GroupOptions{{Name: "a", Servers: servers(urlOf(t, s.URL))}},
		Routes: []RouteOptions{{
			Group:           "a",
			RequestHeaders:  HeaderOptions{Set: map[string]string{"x-plan": "gold"}, Remove: []string{"X-Debug"}},
			ResponseHeaders: HeaderOptions{Set: map[string]string{"X-Powered-By": "us", "Strict-Transport-Security": "max-age=1"}, Remove: []string{"server"}},
		}},
	})
	r := httptest.NewRequestWithContext(bounded(t), http.MethodPost, "http://shop.example/", io.MultiReader(strings.NewReader("x")))
	r.Header = http.Header{"X-Plan": {"forged", "twice"}, "X_plan": {"forged"}, "X-Debug": {"1"}, "x_DEBUG": {"1"}, "X-Other": {"kept"}}
	r.Trailer = http.Header{"X-Plan": {"forged"}, "X-Sum": {"4"}}
	w := httptest.NewRecorder()
	limited(g).ServeHTTP(w, r)
	if got := seen["X-Plan"]; !slices.Equal(got, []string{"gold"}) {
		t.Errorf("X-Plan is %q", got)
	}
	for _, name := range []string{"X_plan", "X_Plan", "X-Debug", "X_debug", "X_DEBUG"} {
		if seen[name] != nil {
			t.Errorf("%s arrived: %q", name, seen[name])
		}
	}
	if seen.Get("X-Other") != "kept" || trailer.Get("X-Sum") != "4" || trailer["X-Plan"] != nil {
		t.Errorf("got %v and the trailer %v", seen, trailer)
	}
	for name, want := range map[string][]string{
		"Server": nil, "X-Powered-By": {"us"}, "Strict-Transport-Security": {"max-age=1"}, "X-RateLimit-Limit": {"10"}, "Vary": {"Origin", "Origin"},
	} {
		if got := w.Header()[name]; !slices.Equal(got, want) {
			t.Errorf("the response has %s: %q, want %q", name, got, want)
		}
	}
}

func TestTheGatewaysOwnAnswersKeepTheirHeaders(t *testing.T) {
	g := newGateway(t, Options{
		Groups: []GroupOptions{{Name: "a", Servers: servers(urlOf(t, "http://"+testserver.FreeAddr(t)))}},
		Routes: []RouteOptions{{Group: "a", ResponseHeaders: HeaderOptions{Set: map[string]string{"Cache-Control": "max-age=3600"}}}},
	})
	w := httptest.NewRecorder()
	g.ServeHTTP(w, httptest.NewRequestWithContext(bounded(t), http.MethodGet, "/", http.NoBody))
	if w.Code != http.StatusServiceUnavailable || w.Header().Get("Cache-Control") != "no-store" {
		t.Errorf("got %d %v", w.Code, w.Header())
	}
}

func TestHeadersThatARouteMustNotChange(t *testing.T) {
	for _, name := range []string{
		"Connection", "keep-alive", "TE", "Trailer", "Transfer-Encoding", "Upgrade", "Proxy-Authorization", "HTTP2-Settings", "Content-Length", "Expect", "Sec-WebSocket-Key",
		"Host", "X-Request-ID", "Traceparent", "X-Deadline-Ms", "grpc-timeout", "X-Envoy-Expected-Rq-Timeout-Ms", "X-RateLimit-Limit", "RateLimit", "RateLimit-Policy",
		"Authorization", "Cookie", "X-API-Key", "X_Api_Key", "Forwarded", "X-Forwarded-For", "X-Forwarded-User", "X-Real-IP", "X-Original-URI",
		"", "a b", "X-Plan:", "é",
	} {
		for setting, o := range map[string]HeaderOptions{"set": {Set: map[string]string{name: "x"}}, "remove": {Remove: []string{name}}} {
			err := (&RouteOptions{RequestHeaders: o}).Check(nil)
			if err == nil || !strings.HasPrefix(err.Error(), "request_headers: ") || !strings.Contains(err.Error(), "(") {
				t.Errorf("%s %q: %v", setting, name, err)
			}
			if err := (&RouteOptions{ResponseHeaders: o}).Check(nil); err == nil || !strings.HasPrefix(err.Error(), "response_headers: ") {
				t.Errorf("response: %s %q: %v", setting, name, err)
			}
		}
	}
	settings := Options{
		Groups: []GroupOptions{{Name: "a", Servers: servers(urlOf(t, "http://a"))}}, Identifies: func(name string) bool { return name == "X-Tenant" },
		Routes: []RouteOptions{{Group: "a", RequestHeaders: HeaderOptions{Remove: []string{"x_tenant"}}}},
	}
	if _, err := New(settings); err == nil || !strings.Contains(err.Error(), "x-tenant identifies the client") {
		t.Errorf("a field of --identity: %v", err)
	}
	if err := (&RouteOptions{RequestHeaders: HeaderOptions{Set: map[string]string{"X-Plan": "a\r\nX-Evil: b"}}}).Check(nil); err == nil {
		t.Error("a value may have a line break")
	}
	allowed := HeaderOptions{Set: map[string]string{"X-Plan": "gold", "Set-Cookie": "a=b"}, Remove: []string{"Server", "Referer"}}
	if err := (&RouteOptions{RequestHeaders: allowed, ResponseHeaders: allowed}).Check(nil); err != nil {
		t.Error(err)
	}
}
