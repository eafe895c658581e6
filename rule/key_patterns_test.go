package rule_test

import (
	"testing"

	"github.com/stintdev/stint/rule"
)

func TestKeyPatternsAreThoseOfTheWholeSet(t *testing.T) {
	set, err := rule.Parse(rule.File{Name: "rules.yaml", Data: []byte(`
allow: ["sk_internal_*", 10.0.0.0/8]
deny: [sk_revoked]
tiers:
  pro: {api_key_pattern: "pro_??", limit: 9, window: 60}
rules:
  - {id: a, match: {api_key_pattern: "*"}, limit: 1, window: 60, override: {vip: {limit: 5}}}
  - {id: b, match: {api_key_pattern: "*-test"}, limit: 1, window: 60}
`)})
	if err != nil {
		t.Fatal(err)
	}
	p := set.KeyPatterns()
	for text, want := range map[string]bool{
		"sk_internal_7": true, "sk_revoked": true, "pro_ab": true, "vip": true, "x-test": true,
		"orders": false, "pro_abc": false, "10.0.0.1": false, "": false, "vip2": false,
	} {
		if got := p.Match(text); got != want {
			t.Errorf("%q: %t, want %t", text, got, want)
		}
	}
	if (*rule.Set)(nil).KeyPatterns().Match("x") {
		t.Error("a nil set has patterns")
	}
}
