package rule

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stintdev/stint"
)

// manyRules returns rules of every kind that the index distinguishes.
func manyRules(n int) File {
	kinds := []string{
		`{id: r%[1]d, match: {path: /v1/resource%[1]d, methods: [GET, POST]}, by: [api_key], limit: 100, window: 60}`,
		`{id: r%[1]d, match: {path_prefix: /v2/area%[1]d/}, by: [ip], algorithm: gcra, limit: 100, window: 60}`,
		`{id: r%[1]d, match: {endpoint_regex: "^/v3/thing%[1]d/[0-9]+$"}, params: {capacity: 10, refill_rate: 1.67}}`,
		`{id: r%[1]d, match: {path_prefix: /, api_key_pattern: "tenant_%[1]d_*"}, limit: 50/s}`,
		`{id: r%[1]d, match: {host: "h%[1]d.example.com", path_prefix: /v1/}, limit: 50/s}`,
	}
	var b strings.Builder
	b.WriteString("tiers: {free: {api_key_pattern: \"sk_free_*\", limit: 100, window: 60}}\nrules:\n")
	for i := range n {
		fmt.Fprintf(&b, "  - "+kinds[i%len(kinds)]+"\n", i)
	}
	return File{"many.yaml", []byte(b.String())}
}

func mustParse(tb testing.TB, text string) *Set {
	tb.Helper()
	s, err := Parse(File{"rules.yaml", []byte(text)})
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

func BenchmarkParse10000Rules(b *testing.B) {
	file := manyRules(10_000)
	b.SetBytes(int64(len(file.Data)))
	for b.Loop() {
		if _, err := Parse(file); err != nil {
			b.Fatal(err)
		}
	}
}

// manyRequests match, in order, none, one, one by an expression, and three of
// manyRules.
var manyRequests = map[string]Map{
	"none":  {"api_key": "sk_1", "method": "GET", "path": "/other/xyz", "host": "api.example.com", "ip": "10.1.2.3"},
	"path":  {"api_key": "sk_1", "method": "GET", "path": "/v1/resource5000", "host": "api.example.com", "ip": "10.1.2.3"},
	"regex": {"api_key": "sk_1", "method": "GET", "path": "/v3/thing5002/77", "host": "api.example.com", "ip": "10.1.2.3"},
	"three": {"api_key": "tenant_5003_x", "method": "GET", "path": "/v1/resource5000", "host": "h9.example.com", "ip": "10.1.2.3"},
}

func BenchmarkMatchAmong10000Rules(b *testing.B) {
	s, err := Parse(manyRules(10_000))
	if err != nil {
		b.Fatal(err)
	}
	for name, a := range manyRequests {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				q := s.borrow(a, 1)
				q.collectClaims()
				s.release(q)
			}
		})
	}
}

func BenchmarkDecide(b *testing.B) {
	s, err := Parse(manyRules(10_000))
	if err != nil {
		b.Fatal(err)
	}
	store := stint.NewMemory(stint.MemoryOptions{MaxKeys: 1000})
	for name, a := range manyRequests {
		b.Run(name, func(b *testing.B) {
			var o Outcome
			b.ReportAllocs()
			for b.Loop() {
				if err := s.DecideInto(b.Context(), store, a, 1, &o); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
