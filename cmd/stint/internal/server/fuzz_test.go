package server

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stintdev/stint"
)

// FuzzBodies sends anything to the endpoints that read bodies: each answer is
// a decision or a mistake of the caller, in JSON.
func FuzzBodies(f *testing.F) {
	for _, seed := range []string{
		`{"key":"k","limit":"1/s"}`, `{"key":"k","limits":["1/s",{"limit":5,"window":"1h"}],"cost":-1,"at_us":1}`,
		`{"attributes":{"api_key":"k","ip":"203.0.113.1","path":"/","n":1,"b":true},"cost":2}`,
		`{"key":"k","limit":{"algorithm":"quota","limit":1000,"period":"30d","anchor":"2026-01-31T00:00:00Z"}}`,
		`{"key":"k","limit":{"algorithm":"token_bucket","capacity":10,"refill_rate":1.67}}`,
		`{"items":[{"key":"k","limit":"1/s"},{"attributes":{"api_key":"k"}},{"key":"k"},1]}`,
	} {
		f.Add([]byte(seed))
	}
	s, err := New(Config{Store: stint.NewMemory(stint.MemoryOptions{MaxKeys: 1000})})
	if err != nil {
		f.Fatal(err)
	}
	api, admin := s.httpHandler(), s.adminHandler()
	f.Fuzz(func(t *testing.T, body []byte) {
		for path, handler := range map[string]http.Handler{"/v1/check": api, "/v1/take": api, "/v1/peek": api, "/v1/giveback": api, "/v1/batch": api, "/v1/reset": admin} {
			w := httptest.NewRecorder()
			r := httptest.NewRequest(http.MethodPost, path, bytes.NewReader(body))
			r.Host = "localhost"
			handler.ServeHTTP(w, r)
			if w.Code != http.StatusOK && w.Code != http.StatusBadRequest || !json.Valid(w.Body.Bytes()) {
				t.Errorf("%s: status %d, %s", path, w.Code, w.Body)
			}
		}
	})
}

// FuzzOriginal lets a trusted proxy pass on anything.
func FuzzOriginal(f *testing.F) {
	f.Add("/orders?x=1", "POST", "shop.example", "/v1/auth/a%2Fb?c")
	f.Add("https://[::1]:80/x", "", "a, b", "/v1/auth")
	f.Add("//x", "\x00", ",", "/v1/auth?deny_status=403")
	s, err := New(Config{Store: stint.NewMemory(stint.MemoryOptions{MaxKeys: 1000}), TrustedProxies: thisMachine})
	if err != nil {
		f.Fatal(err)
	}
	handler := s.httpHandler()
	f.Fuzz(func(t *testing.T, uri, method, host, target string) {
		r := httptest.NewRequest(http.MethodGet, "/v1/auth", http.NoBody)
		if u := parseTarget(target); u.Host == "" && u.Scheme == "" {
			u.Path = authPath + u.Path
			r.URL = u
		}
		r.RemoteAddr = "127.0.0.1:1"
		r.Header.Set("X-Original-Uri", uri)
		r.Header.Set("X-Original-Method", method)
		r.Header.Set(hostHeader, host)
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		if w.Code >= http.StatusInternalServerError {
			t.Errorf("status %d, %s", w.Code, w.Body)
		}
	})
}
