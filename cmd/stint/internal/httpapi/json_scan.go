package httpapi

// scan is a place in valid JSON. It only finds where values end: that they
// are right has been checked, so it is an order of magnitude cheaper than a
// decoder, and nothing is copied.
type scan struct{ rest []byte }

// accept steps over the character c, if it comes next but for space.
func (s *scan) accept(c byte) bool {
	s.skipSpace()
	if len(s.rest) == 0 || s.rest[0] != c {
		return false
	}
	s.rest = s.rest[1:]
	return true
}

// value steps over the next value and returns it.
func (s *scan) value() []byte {
	s.skipSpace()
	n := valueLength(s.rest)
	v := s.rest[:n]
	s.rest = s.rest[n:]
	return v
}

// skipSpace steps over what stands between values.
func (s *scan) skipSpace() {
	for len(s.rest) > 0 && (s.rest[0] == ' ' || s.rest[0] == '\n' || s.rest[0] == '\t' || s.rest[0] == '\r') {
		s.rest = s.rest[1:]
	}
}

// valueLength is the length of the value that data begins with.
func valueLength(data []byte) int {
	depth := 0
	for i := 0; i < len(data); i++ {
		switch data[i] {
		case '"':
			i += stringLength(data[i:]) - 1
		case '{', '[':
			depth++
			continue
		case '}', ']':
			depth--
		case ',', ':', ' ', '\t', '\r', '\n':
			if depth == 0 {
				return i
			}
			continue
		default:
			continue // within a number or a word
		}
		if depth == 0 {
			return i + 1
		}
		if depth < 0 { // the end of what the value stands in
			return i
		}
	}
	return len(data)
}

// stringLength is the length of the string that data begins with, with both
// its quotes.
func stringLength(data []byte) int {
	for i := 1; i < len(data); i++ {
		switch data[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(data)
}
