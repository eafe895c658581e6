package server

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stintdev/stint"
)

// BenchmarkCheck is what a request costs behind net/http: reading it, the
// rules, the store, the metrics, and writing the decision.
func BenchmarkCheck(b *testing.B) {
	for name, c := range map[string]struct{ path, body string }{
		"check": {"/v1/check", `{"attributes":{"api_key":"k","method":"GET","path":"/v1/orders","ip":"203.0.113.1"}}`},
		"take":  {"/v1/take", `{"key":"user:42","limit":{"limit":100,"window":"1m"}}`},
		"auth":  {"/v1/auth/v1/orders", ""},
	} {
		b.Run(name, func(b *testing.B) {
			s, err := New(Config{Store: stint.NewMemory(stint.MemoryOptions{})})
			if err != nil {
				b.Fatal(err)
			}
			handler := s.httpHandler()
			b.ReportAllocs()
			for b.Loop() {
				r := httptest.NewRequest(http.MethodPost, c.path, strings.NewReader(c.body))
				r.Header.Set("X-Api-Key", "k")
				handler.ServeHTTP(httptest.NewRecorder(), r)
			}
		})
	}
}
