package rule

import (
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestGlob(t *testing.T) {
	for _, c := range []struct {
		pattern, text string
		want          bool
	}{
		{"", "", true},
		{"abc", "abc", true},
		{"abc", "abcd", false},
		{"*", "", true},
		{"*", "anything at all", true},
		{"a*", "a", true},
		{"a*", "ba", false},
		{"*a", "ba", true},
		{"a*a", "a", false},
		{"a*a", "aa", true},
		{"a*b*c", "abbc", true},
		{"a*b*c", "acb", false},
		{"a**b", "ab", true},
		{"a?c", "abc", true},
		{"a?c", "ac", false},
		{"?", "é", true},
		{"??", "é", false},
		{"*?", "", false},
		{"*a?", "xaax", true},
		{"*?a*", "a", false},
		{"*?a*", "xa", true},
		{"[a]", "a", false},
		{"a.c", "abc", false},
		{"*ab", "aab", true},
	} {
		g := newGlob(c.pattern)
		if got := g.match(c.text); got != c.want {
			t.Errorf("%q matches %q: got %t, want %t", c.pattern, c.text, got, c.want)
		}
	}
}

// FuzzGlob compares globs with equivalent regular expressions.
func FuzzGlob(f *testing.F) {
	f.Add("a*b?c*", "axxbycz")
	f.Add("*?a*?", "aaa")
	f.Add("", "")
	f.Fuzz(func(t *testing.T, pattern, text string) {
		if len(pattern) > 100 || !utf8.ValidString(pattern) || !utf8.ValidString(text) {
			t.Skip()
		}
		expression := regexp.QuoteMeta(pattern)
		expression = strings.ReplaceAll(expression, `\*`, ".*")
		expression = strings.ReplaceAll(expression, `\?`, ".")
		g := newGlob(pattern)
		want := regexp.MustCompile("^(?s:" + expression + ")$").MatchString(text)
		if got := g.match(text); got != want {
			t.Fatalf("%q matches %q: got %t, want %t", pattern, text, got, want)
		}
		if want && !strings.HasPrefix(text, g.prefix()) {
			t.Fatalf("%q matches %q, which does not begin with %q", pattern, text, g.prefix())
		}
	})
}
