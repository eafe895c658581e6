package rule

import (
	"fmt"
	"strings"
	"testing"
)

// bomb returns a rule set that parses, because merged values that a key
// overrides are not read. With its aliases expanded it has ten to the power of
// n values.
func bomb(n int) File {
	var text strings.Builder
	text.WriteString("rules:\n- id: a\n  limit: 1/s\n  version: '1'\n  <<:\n")
	for i := range n {
		item := "x"
		if i > 0 {
			item = fmt.Sprint("*l", i-1)
		}
		fmt.Fprintf(&text, "  - {version: &l%d [%s]}\n", i, strings.TrimSuffix(strings.Repeat(item+", ", 10), ", "))
	}
	return File{"bomb.yaml", []byte(text.String())}
}

func TestWhatParsesMayStillBeTooMuchToWriteOut(t *testing.T) {
	if _, err := Parse(bomb(12)); err != nil {
		t.Fatalf("the test itself: %v", err)
	}
	if _, err := TextOfRule([]File{bomb(3)}, "a"); err != nil {
		t.Errorf("a thousand values: %v", err)
	}
	for name, do := range map[string]func(f File) error{
		"an edit":      func(f File) error { _, _, err := Apply([]File{f}, PutRule("b", []byte(`{"limit":"1/s"}`))); return err },
		"a comparison": func(f File) error { _, err := ReadContents([]File{f}); return err },
		"its text":     func(f File) error { _, err := TextOfRule([]File{f}, "a"); return err },
		"its lists":    func(f File) error { _, err := ListEntries([]File{f}); return err },
	} {
		if err := do(bomb(12)); err == nil || !strings.Contains(err.Error(), "aliases reach too much") {
			t.Errorf("%s: %v", name, err)
		}
	}
	loop := File{"loop.yaml", []byte("rules:\n- id: a\n  limit: 1/s\n  version: '1'\n  <<: {version: &l [*l]}\n")}
	if _, err := TextOfRule([]File{loop}, "a"); err == nil {
		t.Error("a list within itself is written out")
	}
}
