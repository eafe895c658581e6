// Package docs tests that the documents hold: their rules load and their
// links lead somewhere.
package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stintdev/stint/rule"
)

var (
	fence = regexp.MustCompile("(?s)```yaml\n(rules:.*?|tiers:.*?)```")
	link  = regexp.MustCompile(`\]\(([^)#]+)(#[^)]*)?\)`)
)

func documents(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, pattern := range []string{"*.md", "decisions/*.md"} {
		paths, err := filepath.Glob(pattern)
		if err != nil || len(paths) == 0 {
			t.Fatalf("%s: %v", pattern, err)
		}
		for _, path := range paths {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			found[path] = string(text)
		}
	}
	return found
}

func TestRulesInDocumentsLoad(t *testing.T) {
	seen := 0
	for path, text := range documents(t) {
		for _, m := range fence.FindAllStringSubmatch(text, -1) {
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

func TestLinksLeadSomewhere(t *testing.T) {
	for path, text := range documents(t) {
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			if _, err := os.Stat(filepath.Join(filepath.Dir(path), m[1])); err != nil {
				t.Errorf("%s: %v", path, err)
			}
		}
	}
}
