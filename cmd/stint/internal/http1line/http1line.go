// Package http1line reads the lines of HTTP/1.1 heads that have one meaning, which every
// recipient reads in the same way. Packages http1server and http1client use it to read plain
// messages themselves, and leave all others to net/http.
package http1line

import (
	"strings"
)

// Verdict says what a text is.
type Verdict uint8

// The verdicts.
const (
	Incomplete Verdict = iota // the beginning of what may be plain
	Plain                     // plain and complete
	Other                     // neither
)

// Next cuts off the first line, without its end. A plain line ends with CR LF; RFC 9112,
// section 2.2, lets recipients accept more.
func Next(text string) (line, rest string, found Verdict) {
	n := strings.IndexByte(text, '\n')
	switch {
	case n < 0:
		return "", "", Incomplete
	case n == 0 || text[n-1] != '\r':
		return "", "", Other
	}
	return text[:n-1], text[n+1:], Plain
}

// Field splits a plain field line: a token, a colon, and a value of visible ASCII, spaces and
// tabs (RFC 9112, section 5). A line that is folded (section 5.2), or that has a space before
// its colon (section 5.1), is not plain.
func Field(line string) (name, value string, ok bool) {
	colon := strings.IndexByte(line, ':')
	if colon <= 0 {
		return "", "", false
	}
	for i := range colon {
		if !tokens[line[i]] {
			return "", "", false
		}
	}
	value = line[colon+1:]
	return line[:colon], Trim(value), isText(value)
}

// Trim removes the spaces and tabs around a value: RFC 9112, section 5.1. Most values have
// none, or one space before, for which strings.Trim takes several times as long.
func Trim(value string) string {
	for len(value) > 0 && isSpace(value[0]) {
		value = value[1:]
	}
	for len(value) > 0 && isSpace(value[len(value)-1]) {
		value = value[:len(value)-1]
	}
	return value
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' }

// isText accepts visible ASCII, spaces and tabs.
func isText(value string) bool {
	for i := range len(value) {
		if c := value[i]; (c < ' ' || c > '~') && c != '\t' {
			return false
		}
	}
	return true
}

// tokens are the characters of a field name: RFC 9110, section 5.6.2.
var tokens = func() (set [256]bool) {
	for c := range set {
		set[c] = '0' <= c && c <= '9' || 'a' <= c|' ' && c|' ' <= 'z' || strings.IndexByte("!#$%&'*+-.^_`|~", byte(c)) >= 0
	}
	return set
}()
