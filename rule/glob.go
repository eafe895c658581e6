package rule

import (
	"strings"
	"unicode/utf8"
)

// maxPattern is the longest pattern in a rule file, in bytes.
const maxPattern = 512

// glob is a pattern in which * matches any text, including none, and ? matches
// any one character. No other character is special.
type glob struct {
	text     string
	segments []string // the texts between the stars; one entry without a star
}

func newGlob(text string) glob {
	return glob{text, strings.Split(text, "*")}
}

// exact reports whether the pattern matches only its own text.
func (g *glob) exact() bool { return len(g.segments) == 1 && !strings.Contains(g.text, "?") }

// prefix returns the literal text that every match begins with.
func (g *glob) prefix() string {
	prefix, _, _ := strings.Cut(g.segments[0], "?")
	return prefix
}

// literals returns the number of bytes that the pattern fixes. More bytes make
// a pattern more specific.
func (g *glob) literals() int {
	return len(g.text) - strings.Count(g.text, "*") - strings.Count(g.text, "?")
}

// any reports whether the pattern matches every text of some minimum length.
func (g *glob) any() bool { return len(g.segments) > 1 && g.literals() == 0 }

// match matches the first segment at the front, the last at the back, and every
// other segment at its first occurrence in between. The first occurrence leaves
// the most text for the remaining segments, so no backtracking is needed.
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

// segmentEnd returns the end of the segment in s if s begins with the segment.
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

// runeSize returns the length of the first character. It returns 1 at the end
// of s so that the caller's loop ends.
func runeSize(s string) int {
	_, size := utf8.DecodeRuneInString(s)
	return max(1, size)
}
