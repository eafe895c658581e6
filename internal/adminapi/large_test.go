package adminapi

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestOneRuleOfThousandsIsChanged(t *testing.T) {
	if testing.Short() {
		t.Skip("parses thousands of rules several times")
	}
	var text strings.Builder
	text.WriteString("rules:\n")
	for i := range 2_000 {
		fmt.Fprintf(&text, "  # Rule %d.\n  - id: r%d\n    match: {path_prefix: /v1/r%d, methods: [GET, POST]}\n    limit: 100\n    window: 60\n", i, i, i)
	}
	f := newFixture(t, text.String())
	before := time.Now()
	got := f.want(200, "PUT", "/rules/r1500", `{"match":{"path_prefix":"/v1/r1500"},"limit":200,"window":60}`)
	t.Logf("changed in %v", time.Since(before))
	if !strings.Contains(got.body, `"changed":["r1500"]`) {
		t.Errorf("%.500s", got.body)
	}
	want := strings.Replace(text.String(), "/v1/r1500, methods: [GET, POST]}\n    limit: 100", "/v1/r1500}\n    limit: 200", 1)
	if f.text() != want {
		t.Error("other lines have changed")
	}
}
