package ruleedit

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stintdev/stint/rule"
)

// bomb returns a rule set that parses, because merged values that a key
// overrides are not read. With its aliases expanded it has ten to the power of
// n values.
func bomb(n int) rule.File {
	var text strings.Builder
	text.WriteString("rules:\n- id: a\n  limit: 1/s\n  version: '1'\n  <<:\n")
	for i := range n {
		item := "x"
		if i > 0 {
			item = fmt.Sprint("*l", i-1)
		}
		fmt.Fprintf(&text, "  - {version: &l%d [%s]}\n", i, strings.TrimSuffix(strings.Repeat(item+", ", 10), ", "))
	}
	return file("bomb.yaml", text.String())
}

func TestAFileThatParsesMayBeTooLargeToWrite(t *testing.T) {
	if _, err := rule.Parse(bomb(12)); err != nil {
		t.Fatalf("the test itself: %v", err)
	}
	if _, err := TextOfRule([]rule.File{bomb(3)}, "a"); err != nil {
		t.Errorf("a thousand values: %v", err)
	}
	for name, do := range map[string]func(f rule.File) error{
		"an edit": func(f rule.File) error {
			_, _, err := Apply([]rule.File{f}, PutRule("b", []byte(`{"limit":"1/s"}`)))
			return err
		},
		"a comparison": func(f rule.File) error { _, err := ReadContents([]rule.File{f}); return err },
		"its text":     func(f rule.File) error { _, err := TextOfRule([]rule.File{f}, "a"); return err },
		"its lists":    func(f rule.File) error { _, err := ListEntries([]rule.File{f}); return err },
	} {
		if err := do(bomb(12)); err == nil || !strings.Contains(err.Error(), "aliases expand to too many values") {
			t.Errorf("%s: %v", name, err)
		}
	}
	loop := file("loop.yaml", "rules:\n- id: a\n  limit: 1/s\n  version: '1'\n  <<: {version: &l [*l]}\n")
	if _, err := TextOfRule([]rule.File{loop}, "a"); err == nil {
		t.Error("a list within itself is written out")
	}
}
