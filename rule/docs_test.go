package rule

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// Every example in the reference is a file that loads.
func TestTheReferencesExamplesLoad(t *testing.T) {
	text, err := os.ReadFile("../docs/reference-rules.md")
	if err != nil {
		t.Fatal(err)
	}
	examples := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllSubmatch(text, -1)
	if len(examples) < 8 {
		t.Fatalf("%d examples", len(examples))
	}
	for _, e := range examples {
		if _, err := Parse(File{"example.yaml", e[1]}); err != nil {
			t.Errorf("%v\n%s", err, e[1])
		}
	}
}

// The reference documents every key of a rule file, and every word that lint knows.
func TestTheReferenceNamesEveryKey(t *testing.T) {
	text, err := os.ReadFile("../docs/reference-rules.md")
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	for key := range fileFields {
		keys = append(keys, key)
	}
	for key := range ruleFields {
		keys = append(keys, key)
	}
	for key := range matchFields {
		keys = append(keys, key)
	}
	for key := range tierFields {
		keys = append(keys, key)
	}
	for word := range sensitiveWords {
		keys = append(keys, word)
	}
	for _, key := range keys {
		if !regexp.MustCompile("[`]"+key+"[`:]").Match(text) && !strings.Contains(string(text), "`"+key+":") {
			t.Errorf("%s is not in the reference", key)
		}
	}
}
