package retry

import (
	"strings"
	"time"
)

// parseRateLimit parses a RateLimit field (draft-ietf-httpapi-ratelimit-headers-11), a
// list such as
//
//	"burst";r=0;t=2, "daily";r=970;t=41000
//
// and returns the time until the exhausted limits, those with r=0, have quota again: the
// greatest t among them or, if no limit is exhausted, the greatest t of all. ok is false
// if the field is not a list of items (RFC 9651), or if no item has both an r and a t that
// are numbers of at least 0.
func parseRateLimit(field string) (wait time.Duration, ok bool) {
	var usedUp, greatest time.Duration
	var found, out bool
	s := scanner{rest: field}
	for more := true; more; more = s.comma() {
		item, good := s.item()
		if !good {
			return 0, false
		}
		if item.hasR && item.hasT {
			found = true
			greatest = max(greatest, item.wait)
			if item.remaining == 0 {
				out, usedUp = true, max(usedUp, item.wait)
			}
		}
	}
	if s.rest != "" {
		return 0, false
	}
	if out {
		return usedUp, true
	}
	return greatest, found
}

// item is one limit of the field.
type item struct {
	remaining, wait time.Duration // remaining is a count, parsed like a number of seconds
	hasR, hasT      bool
}

// scanner parses the structured fields (RFC 9651) that RateLimit uses: lists of strings
// or tokens with parameters.
type scanner struct{ rest string }

func (s *scanner) item() (i item, ok bool) {
	s.spaces()
	if _, ok := s.value(); !ok {
		return i, false
	}
	for s.take(';') {
		s.spaces()
		key, value := s.key(), ""
		if key == "" {
			return i, false
		}
		if s.take('=') {
			if value, ok = s.value(); !ok {
				return i, false
			}
		}
		i.set(key, value)
	}
	return i, true
}

func (i *item) set(key, value string) {
	switch key {
	case "r":
		i.remaining, i.hasR = seconds(value)
	case "t":
		i.wait, i.hasT = seconds(value)
	}
}

// comma reports whether another item follows.
func (s *scanner) comma() bool {
	s.spaces()
	return s.take(',')
}

func (s *scanner) spaces() { s.rest = strings.TrimLeft(s.rest, " \t") }

func (s *scanner) take(c byte) bool {
	if s.rest == "" || s.rest[0] != c {
		return false
	}
	s.rest = s.rest[1:]
	return true
}

func (s *scanner) key() string {
	return s.span(func(c byte) bool { return isLower(c) || isDigit(c) || strings.IndexByte("_-.*", c) >= 0 })
}

// value parses a bare item. The result of a string or a byte sequence begins with its
// delimiter, so that it is not taken for a number.
func (s *scanner) value() (string, bool) {
	if s.take('"') {
		return s.text()
	}
	if s.take(':') {
		bytes := s.span(func(c byte) bool { return c != ':' })
		return ":" + bytes, s.take(':')
	}
	word := s.span(func(c byte) bool {
		return isLower(c|0x20) || isDigit(c) || strings.IndexByte("!#$%&'*+-.^_`|~:/?@", c) >= 0
	})
	return word, word != ""
}

// text parses a string after its opening quote.
func (s *scanner) text() (string, bool) {
	for i := 0; i < len(s.rest); i++ {
		switch c := s.rest[i]; {
		case c == '\\':
			i++
		case c == '"':
			text := `"` + s.rest[:i]
			s.rest = s.rest[i+1:]
			return text, true
		case c < ' ' || c > '~':
			return "", false
		}
	}
	return "", false
}

// span reads bytes while of returns true.
func (s *scanner) span(of func(byte) bool) string {
	i := 0
	for i < len(s.rest) && of(s.rest[i]) {
		i++
	}
	read := s.rest[:i]
	s.rest = s.rest[i:]
	return read
}

func isLower(c byte) bool { return 'a' <= c && c <= 'z' }
func isDigit(c byte) bool { return '0' <= c && c <= '9' }
