package http1line

import "testing"

func TestNext(t *testing.T) {
	for text, want := range map[string]struct {
		line, rest string
		found      Verdict
	}{
		"":         {"", "", Incomplete},
		"a":        {"", "", Incomplete},
		"a\r":      {"", "", Incomplete},
		"\r\n":     {"", "", Plain},
		"a\r\nb":   {"a", "b", Plain},
		"a\n":      {"", "", Other},
		"\n":       {"", "", Other},
		"a\n\r\n":  {"", "", Other},
		"a\rb\r\n": {"a\rb", "", Plain}, // no field, and no request line, accepts the CR
	} {
		if line, rest, found := Next(text); line != want.line || rest != want.rest || found != want.found {
			t.Errorf("Next(%q) is %q, %q, %d", text, line, rest, found)
		}
	}
}

func TestField(t *testing.T) {
	for line, want := range map[string][2]string{
		"A: b":                {"A", "b"},
		"a:b":                 {"a", "b"},
		"X!#$%&'*+-.^_`|~9:":  {"X!#$%&'*+-.^_`|~9", ""},
		"A: \t b c\td:e \t":   {"A", "b c\td:e"},
		"A: \"quoted, text\"": {"A", "\"quoted, text\""},
	} {
		if name, value, ok := Field(line); !ok || name != want[0] || value != want[1] {
			t.Errorf("Field(%q) is %q, %q, %v", line, name, value, ok)
		}
	}
	for _, line := range []string{"", "A", ":", ": b", "A : b", " A: b", "\tA: b", "A@: b", "Ä: b", "A: b\rc", "A: b\x00", "A: \x7f", "A: ä", "A(: b", "A\x00: b"} {
		if name, value, ok := Field(line); ok {
			t.Errorf("Field(%q) is %q, %q", line, name, value)
		}
	}
}
