package urlpath

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Check returns an error for a path of a URL that servers read differently. Such a
// path has a path parameter, a backslash, an encoded separator, dot segment or NUL, an
// invalid or doubly encoded escape, or bytes that are not UTF-8. The error says what
// is wrong.
//
// [Normalize] and [Decode] return the same form for every path that passes.
func Check(path string) error {
	if end := strings.IndexAny(path, "?#"); end >= 0 {
		path = path[:end]
	}
	var text []byte // decoded
	for segment := range strings.SplitSeq(path, "/") {
		start := len(text)
		var err error
		if text, err = checkSegment(text, segment); err != nil {
			return err
		}
		if name := string(text[start:]); name != segment && (name == "." || name == "..") {
			return errors.New("has an encoded dot segment")
		}
		text = append(text, '/')
	}
	if !utf8.Valid(text) {
		return errors.New("is not UTF-8")
	}
	return nil
}

// checkSegment appends the decoded segment.
func checkSegment(to []byte, segment string) ([]byte, error) {
	for i := 0; i < len(segment); i++ {
		c := segment[i]
		if c == '%' {
			decoded, ok := escape(segment[i:])
			if !ok {
				return to, errors.New("has a % that encodes nothing")
			}
			if decoded == '%' && isEscape(segment[i+3:]) {
				return to, errors.New("is encoded twice")
			}
			c, i = decoded, i+2
		}
		switch c {
		case '/': // encoded: plain slashes are between the segments
			return to, errors.New("has an encoded /")
		case ';', '\\', 0:
			return to, fmt.Errorf("has a %q, plain or encoded", c)
		}
		to = append(to, c)
	}
	return to, nil
}

// isEscape reports whether s begins with two hexadecimal digits.
func isEscape(s string) bool {
	if len(s) < 2 {
		return false
	}
	_, first := unhex(s[0])
	_, second := unhex(s[1])
	return first && second
}
