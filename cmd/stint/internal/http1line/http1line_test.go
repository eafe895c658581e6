package http1line

import (
	"fmt"
	"strings"
	"testing"
	"unsafe"
)

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

// A repeated line is what it was before, and any other line is read, wherever it stands.
func TestFieldsReadEveryHead(t *testing.T) {
	var f Fields
	for i, head := range [][]string{
		{"a: b", "C:d"},
		{"a: b", "C:d"},
		{"C:d", "a: b"},
		{"a: b"},
		{"a: c", "C:d", "e: f"},
		{"bad line"},
		{"a: c", "no: no"},
	} {
		f.Begin()
		for _, line := range head {
			input := []byte(line)
			got, ok := f.Read(unsafe.String(&input[0], len(input)), func(name, _ string) bool { return name != "No" })
			for i := range input {
				input[i] = 'x'
			}
			var fresh Fields
			want, wantOK := fresh.Read(line, func(name, _ string) bool { return name != "No" })
			if ok != wantOK || ok && got != want {
				t.Errorf("head %d: %q is %v, want %v", i, line, got, want)
			}
		}
	}
}

func TestFieldsKeepABoundedNumberOfLines(t *testing.T) {
	var f Fields
	for range 2 {
		f.Begin()
		for i := range 3 * MaxKeptFields {
			if l, ok := f.Read(fmt.Sprintf("a: %d", i), func(string, string) bool { return true }); !ok || l.Value != fmt.Sprint(i) {
				t.Errorf("line %d is %v", i, l)
			}
		}
	}
	if len(f.lines) > MaxKeptFields {
		t.Errorf("%d lines are kept", len(f.lines))
	}
}

// Heads that become shorter leave no lines behind.
func TestFieldsKeepTheLinesOfOneHead(t *testing.T) {
	var f Fields
	long := strings.Repeat("x", 4000)
	for lines := MaxKeptFields; lines > 0; lines-- {
		f.Begin()
		for i := range lines {
			value := "short"
			if i == lines-1 {
				value = long
			}
			f.Read("a: "+value, func(string, string) bool { return true })
		}
	}
	f.Begin()
	kept := 0
	for _, l := range f.lines[:cap(f.lines)] {
		kept += len(l.text)
	}
	if kept > len("a: ")+len(long) {
		t.Errorf("%d bytes of lines are kept", kept)
	}
}
