package rule

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stintdev/stint"
)

func manyRules(n int) string {
	var b strings.Builder
	b.WriteString("tiers:\n  free: {api_key_pattern: \"sk_free_*\", limit: 100, window: 60}\nrules:\n")
	for i := range n {
		switch i % 5 {
		case 0:
			fmt.Fprintf(&b, "  - {id: r%d, match: {path: /v1/resource%d, methods: [GET, POST]}, by: [api_key], limit: 100, window: 60}\n", i, i)
		case 1:
			fmt.Fprintf(&b, "  - {id: r%d, match: {path_prefix: /v2/area%d/}, by: [ip], algorithm: gcra, limit: 100, window: 60}\n", i, i)
		case 2:
			fmt.Fprintf(&b, "  - {id: r%d, match: {endpoint_regex: \"^/v3/thing%d/[0-9]+$\"}, params: {capacity: 10, refill_rate: 1.67}}\n", i, i)
		case 3:
			fmt.Fprintf(&b, "  - {id: r%d, match: {path_prefix: /, api_key_pattern: \"tenant_%d_*\"}, limit: 50/s}\n", i, i)
		case 4:
			fmt.Fprintf(&b, "  - {id: r%d, match: {host: \"h%d.example.com\", path_prefix: /v1/}, limit: 50/s}\n", i, i)
		}
	}
	return b.String()
}

func BenchmarkParse10000Rules(b *testing.B) {
	data := []byte(manyRules(10_000))
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		if _, err := Parse(File{"x", data}); err != nil {
			b.Fatal(err)
		}
	}
}

type allowAll struct{}

func (allowAll) Take(_ context.Context, c stint.Claim) (stint.Decision, error) {
	return stint.Decision{Allowed: true, Remaining: 5}, nil
}
func (allowAll) TakeGroups(_ context.Context, g []stint.Group, out []stint.Decision) error {
	for i := range out {
		out[i].Allowed = true
	}
	return nil
}

func BenchmarkDecide10000Rules(b *testing.B) {
	s, err := Parse(File{"x", []byte(manyRules(10_000))})
	if err != nil {
		b.Fatal(err)
	}
	for name, a := range map[string]Map{
		"none":  {"api_key": "sk_1", "method": "GET", "path": "/other/xyz", "host": "api.example.com", "ip": "10.1.2.3"},
		"path":  {"api_key": "sk_1", "method": "GET", "path": "/v1/resource5000", "host": "api.example.com", "ip": "10.1.2.3"},
		"regex": {"api_key": "sk_1", "method": "GET", "path": "/v3/thing5002/77", "host": "api.example.com", "ip": "10.1.2.3"},
		"two":   {"api_key": "tenant_5003_x", "method": "GET", "path": "/v1/resource5000", "host": "h9.example.com", "ip": "10.1.2.3"},
	} {
		b.Run(name, func(b *testing.B) {
			var o Outcome
			b.ReportAllocs()
			for b.Loop() {
				if err := s.DecideInto(context.Background(), allowAll{}, a, 1, &o); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(len(o.Hits)), "hits")
		})
	}
}
