package rule

import (
	"strings"
	"unicode/utf8"
)

// maxPattern bounds a pattern of a rule file, in bytes.
const maxPattern = 512

// glob is a pattern in which * stands for any text, also none, and ? for any
// one character. It has no other special characters.
type glob struct {
	text     string
	segments []string // between the stars; one when there is none
}

func newGlob(text string) glob {
	return glob{text, strings.Split(text, "*")}
}

// exact reports whether the pattern matches itself alone.
func (g *glob) exact() bool { return len(g.segments) == 1 && !strings.Contains(g.text, "?") }

// prefix is what everything that matches begins with.
func (g *glob) prefix() string {
	prefix, _, _ := strings.Cut(g.segments[0], "?")
	return prefix
}

// literals is how many bytes the pattern fixes: the more, the more specific.
func (g *glob) literals() int {
	return len(g.text) - strings.Count(g.text, "*") - strings.Count(g.text, "?")
}

// any reports whether everything matches that is long enough.
func (g *glob) any() bool { return len(g.segments) > 1 && g.literals() == 0 }

// match takes the first segment from the front, the last from the back, and
// the others where each first occurs in between: the earliest place is never
// worse than a later one.
func (g *glob) match(s string) bool {
	first, last := g.segments[0], g.segments[len(g.segments)-1]
	end, ok := segmentEnd(s, first)
	if len(g.segments) == 1 {
		return ok && end == len(s)
	}
	if !ok {
		return false
	}
	s = s[end:]
	for _, segment := range g.segments[1 : len(g.segments)-1] {
		if s, ok = afterSegment(s, segment); !ok {
			return false
		}
	}
	return hasSegmentSuffix(s, last)
}

// segmentEnd returns where the segment ends in s when s begins with it.
func segmentEnd(s, segment string) (end int, ok bool) {
	if !strings.Contains(segment, "?") {
		return len(segment), strings.HasPrefix(s, segment)
	}
	for i := range len(segment) {
		switch {
		case end == len(s):
			return 0, false
		case segment[i] == '?':
			_, size := utf8.DecodeRuneInString(s[end:])
			end += size
		case segment[i] != s[end]:
			return 0, false
		default:
			end++
		}
	}
	return end, true
}

func afterSegment(s, segment string) (rest string, ok bool) {
	if !strings.Contains(segment, "?") {
		_, rest, ok = strings.Cut(s, segment)
		return rest, ok
	}
	for start := 0; start <= len(s); start += runeSize(s[start:]) {
		if end, ok := segmentEnd(s[start:], segment); ok {
			return s[start+end:], true
		}
	}
	return "", false
}

func hasSegmentSuffix(s, segment string) bool {
	if !strings.Contains(segment, "?") {
		return strings.HasSuffix(s, segment)
	}
	start := len(s)
	for range utf8.RuneCountInString(segment) {
		if start == 0 {
			return false
		}
		_, size := utf8.DecodeLastRuneInString(s[:start])
		start -= size
	}
	end, ok := segmentEnd(s[start:], segment)
	return ok && start+end == len(s)
}

// runeSize is the length of the first character, and 1 at the end so that a
// loop ends.
func runeSize(s string) int {
	_, size := utf8.DecodeRuneInString(s)
	return max(1, size)
}
