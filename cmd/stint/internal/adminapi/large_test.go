package adminapi

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stintdev/stint/rule"
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
	parsing := testing.AllocsPerRun(1, func() { _, _ = rule.Parse(rule.File{Name: "rules.yaml", Data: []byte(text.String())}) })
	put := func(limit int) reply {
		return f.want(200, "PUT", "/rules/r1500", fmt.Sprintf(`{"match":{"path_prefix":"/v1/r1500"},"limit":%d,"window":60}`, limit))
	}
	limit := 0
	changing := testing.AllocsPerRun(1, func() { limit++; put(limit) })
	if ratio := changing / parsing; ratio > 3.5 {
		t.Errorf("a change of one rule costs as much as to parse all %.1f times", ratio)
	} else {
		t.Logf("a change of one rule costs as much as to parse all %.1f times", ratio)
	}
	got := put(200)
	if !strings.Contains(got.body, `"changed":["r1500"]`) {
		t.Errorf("%.500s", got.body)
	}
	want := strings.Replace(text.String(), "/v1/r1500, methods: [GET, POST]}\n    limit: 100", "/v1/r1500}\n    limit: 200", 1)
	if f.text() != want {
		t.Error("other lines have changed")
	}
}
