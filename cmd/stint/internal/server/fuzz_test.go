package server

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stintdev/stint"
)

// FuzzBodies sends random bodies to the endpoints that read bodies. Each answer is a decision or
// an error of the caller, in JSON.
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
		for path, handler := range map[string]http.Handler{"/v1/check": api, "/v1/take": api, "/v1/peek": api, "/v1/refund": api, "/v1/giveback": api, "/v1/batch": api, "/v1/reset": admin} {
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
