package rulelimit

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/httplimit"
	"github.com/stintdev/stint/rule"
)

// BenchmarkDecide measures a decision by the built-in rules: two limits of one request.
func BenchmarkDecide(b *testing.B) {
	for name, o := range map[string]Options{
		"plain":                     {},
		"attributes of the program": {Attributes: map[string]func(*http.Request) string{"tier": func(*http.Request) string { return "" }}},
	} {
		b.Run(name, func(b *testing.B) {
			d, err := New(rule.Builtin(), stint.NewMemory(stint.MemoryOptions{}), o)
			if err != nil {
				b.Fatal(err)
			}
			r := httptest.NewRequest(http.MethodGet, "/v1/orders", http.NoBody)
			r.Header.Set("X-API-Key", "k")
			b.ReportAllocs()
			for b.Loop() {
				if _, err := d.Decide(b.Context(), httplimit.NewRequest(r, nil)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
