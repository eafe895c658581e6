package server

import (
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	stintv1 "github.com/stintdev/stint/api/stint/v1"
	"github.com/stintdev/stint/cmd/stint/internal/denials"
)

// denied asks a server for its last denials.
func (r *running) denied(query string) denials.Page {
	r.t.Helper()
	var page denials.Page
	got := r.get("admin", "/v1/denied"+query)
	if err := json.Unmarshal([]byte(got.body), &page); err != nil || got.status != 200 {
		r.t.Fatalf("%d %v: %s", got.status, err, got.body)
	}
	return page
}

// why asks why a key was denied.
func (r *running) why(body string) (page struct {
	Denials []denials.Denial `json:"denials"`
	Limits  []map[string]any `json:"limits"`
},
) {
	r.t.Helper()
	got := r.post("admin", "/v1/why", body)
	if err := json.Unmarshal([]byte(got.body), &page); err != nil || got.status != 200 {
		r.t.Fatalf("%d %v: %s", got.status, err, got.body)
	}
	return page
}

// Every surface shows its denials, and each key says why, with what it has left now.
func TestEverySurfaceShowsItsDenials(t *testing.T) {
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") }))
	defer upstream.Close()
	to, err := url.Parse(upstream.URL)
	if err != nil {
		t.Fatal(err)
	}
	const key = "sk_live_PLANTED_0123456789"
	s, envoy := runEnvoy(t, Config{RESP: "127.0.0.1:0", Gateway: "127.0.0.1:0", Upstreams: []*url.URL{to}, Rules: rulesFile(t, `
rules:
- {id: orders, match: {path_prefix: /orders}, by: [api_key], limit: 1, window: 1h}
- {id: quiet, match: {path_prefix: /quiet}, by: [api_key], limit: 1, window: 1h}
- {id: watched, match: {path_prefix: /orders}, by: [ip], limit: 1, window: 1h, mode: shadow}
`)})
	check := `{"attributes":{"api_key":"` + key + `","path":"/orders/` + key + `"}}`
	s.post("http", "/v1/check", check)
	if got := s.denied(""); len(got.Items) != 0 {
		t.Fatalf("%+v", got)
	}
	s.post("http", "/v1/check", check)
	s.get("http", "/v1/auth/orders/7", "X-Api-Key", key)
	s.get("gateway", "/orders/8?q="+key, "X-Api-Key", key)
	for range 2 {
		s.post("http", "/v1/take", `{"key":"`+key+`","limit":"1/h"}`)
		if _, err := envoy.ShouldRateLimit(patient(t), ofUser(key, 2)); err != nil {
			t.Fatal(err)
		}
	}
	conn := dial(t, s.Addr("resp"))
	for range 2 {
		askRESP(t, conn, "CL.THROTTLE "+key+"-resp 0 1 3600", 6)
	}
	native := stintv1.NewLimiterServiceClient(dialGRPC(t, s))
	if _, err := native.Check(patient(t), &stintv1.CheckRequest{Attributes: map[string]string{"api_key": key, "path": "/orders"}}); err != nil {
		t.Fatal(err)
	}
	page := s.denied("")
	got := map[string]string{}
	for _, d := range page.Items {
		got[d.Surface] = d.Rule + " " + d.Path
		if d.ID == 0 || len(d.Hash) != 16 || d.Max == nil || *d.Remaining != 0 && d.Surface != "envoy" {
			t.Errorf("%+v", d)
		}
	}
	want := map[string]string{
		"check": "orders /orders/…", "auth": "orders /orders/7", "gateway": "orders /orders/8", "grpc": "orders /orders",
		"take": "(take) ", "resp": "(take) ", "envoy": "(envoy) ",
	}
	if !maps.Equal(got, want) || len(page.Items) != len(want) {
		t.Errorf("%+v, want %v", page, want)
	}
	if got := s.denied("?rule=quiet"); len(got.Items) != 0 || got.Next == "" {
		t.Errorf("%+v", got)
	}
	if body := s.get("admin", "/v1/denied").body; strings.Contains(body, "PLANTED") {
		t.Error(body)
	}

	why := s.why(`{"key":"` + key + `","rule":"*"}`)
	if len(why.Denials) != 6 || len(why.Limits) != 2 || why.Limits[0]["remaining"] != 0.0 {
		t.Errorf("%+v", why)
	}
	if why := s.why(`{"key":"` + key + `","limit":"1/h"}`); len(why.Denials) != 1 || why.Denials[0].Surface != "take" || why.Limits[0]["remaining"] != 0.0 {
		t.Errorf("%+v", why)
	}
	if why := s.why(`{"attributes":{"api_key":"` + key + `"},"rule":"quiet"}`); len(why.Denials) != 0 || why.Limits[0]["remaining"] != 1.0 {
		t.Errorf("%+v", why)
	}
	if why := s.why(`{"key":"another","rule":"*"}`); len(why.Denials) != 0 || len(why.Limits) != 2 {
		t.Errorf("%+v", why)
	}
}

// The top keys and the denials have the same ids, and a reload keeps both.
func TestTopKeysAndDenialsAreOfOneKey(t *testing.T) {
	s := run(t, Config{Rules: rulesFile(t, "rules: [{id: orders, by: [api_key], limit: 1, window: 1h}]\n")})
	for range 3 {
		s.post("http", "/v1/check", `{"attributes":{"api_key":"sk_live_one_1234567890"}}`)
		s.post("http", "/v1/take", `{"key":"user:42","limit":"1/h"}`)
	}
	top, _ := s.topOf("?by=denied")
	s.put("/rules", "rules: [{id: orders, by: [api_key], limit: 1, window: 1h}, {id: more, limit: 1/h, match: {path: /more}}]\n")
	page := s.denied("")
	if len(page.Items) != 4 || len(top.Items) != 2 {
		t.Fatalf("%+v %+v", page, top)
	}
	for _, d := range page.Items {
		if d.ID != top.Items[0].ID && d.ID != top.Items[1].ID {
			t.Errorf("%+v, not of %+v", d, top)
		}
	}
}
