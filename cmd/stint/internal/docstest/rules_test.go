// Package docstest tests that the rules in the documents load.
package docstest

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stintdev/stint/rule"
)

var fence = regexp.MustCompile("(?s)```yaml\n(rules:.*?|tiers:.*?)```")

func TestRulesInDocumentsLoad(t *testing.T) {
	paths, err := filepath.Glob("../../../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	decisions, err := filepath.Glob("../../../../docs/decisions/*.md")
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, path := range append(paths, decisions...) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range fence.FindAllStringSubmatch(string(text), -1) {
			seen++
			if _, err := rule.Parse(rule.File{Name: path, Data: []byte(m[1])}); err != nil {
				t.Errorf("%v in\n%s", err, m[1])
			}
		}
	}
	if seen == 0 {
		t.Error("no rule was found in any document")
	}
}
