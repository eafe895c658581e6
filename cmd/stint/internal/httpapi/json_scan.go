package httpapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/stintdev/stint/internal/suggest"
)

// eachMember calls visit for every member of the object in data, which must be valid
// JSON. It refuses a member that is given twice, where encoding/json lets the last one
// count: a field that a caller misspells or repeats would be counted wrongly for months.
func eachMember(data []byte, visit func(name, raw []byte) error) error {
	s := scan{data}
	if !s.accept('{') {
		return badRequest("a JSON object is expected")
	}
	var seen names
	for !s.accept('}') {
		name, err := jsonText(s.value())
		if err != nil {
			return err
		}
		if !seen.add(name) {
			return badRequest("%s: is given twice", shown(string(name)))
		}
		s.accept(':')
		if err := visit(name, s.value()); err != nil {
			return err
		}
		s.accept(',')
	}
	return nil
}

// eachElement calls visit for every element of the list in data, which must be valid
// JSON. It returns false if data is not a list.
func eachElement(data []byte, visit func(raw []byte) error) (isList bool, err error) {
	s := scan{data}
	if !s.accept('[') {
		return false, nil
	}
	for !s.accept(']') {
		if err := visit(s.value()); err != nil {
			return true, err
		}
		s.accept(',')
	}
	return true, nil
}

// countElements returns the number of elements of the list in data, −1 if it is not a
// list.
func countElements(data []byte) (n int) {
	isList, _ := eachElement(data, func([]byte) error { n++; return nil })
	if !isList {
		return -1
	}
	return n
}

// jsonText parses a string. It copies the string only if it has escapes. It refuses half
// of a surrogate pair, which encoding/json would replace: two different identities must
// never become one.
func jsonText(raw []byte) ([]byte, error) {
	if raw[0] != '"' {
		return nil, badRequest("must be a string")
	}
	if bytes.IndexByte(raw, '\\') < 0 {
		return raw[1 : len(raw)-1], nil
	}
	var s string
	if err := json.Unmarshal(raw, &s); err != nil {
		return nil, badRequest("must be a string")
	}
	if strings.ContainsRune(s, utf8.RuneError) && !saysReplacement(raw) {
		return nil, badRequest("has half of a surrogate pair")
	}
	return []byte(s), nil
}

// saysReplacement reports whether the text itself has U+FFFD.
func saysReplacement(raw []byte) bool {
	return bytes.ContainsRune(raw, utf8.RuneError) || bytes.Contains(bytes.ToLower(raw), []byte(`\ufffd`))
}

func unknownField(name []byte, known []string) error {
	if near, ok := suggest.Name(string(name), known); ok {
		return badRequest("%s: is not a known field (did you mean %s?)", shown(string(name)), near)
	}
	return badRequest("%s: is not a known field (use one of %s)", shown(string(name)), strings.Join(known, ", "))
}

// shown returns a caller's text for use in an error: quoted and short.
func shown(text string) string { return fmt.Sprintf("%.60q", text) }

// within puts the name of the field in front of an error of its value.
func within(field string, err error) error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*apiError](err); ok {
		return &apiError{e.status, e.code, field + ": " + e.message}
	}
	return badRequest("%s: %v", field, err)
}

// fewNames is the number of names that are compared with each other. A map holds the
// rest.
const fewNames = 16

// names holds the names of one object's members so far.
type names struct {
	few  [fewNames][]byte
	n    int
	many map[string]bool
}

// add returns false if it has seen the name.
func (s *names) add(name []byte) bool {
	for _, other := range s.few[:s.n] {
		if bytes.Equal(name, other) {
			return false
		}
	}
	if s.n < fewNames {
		s.few[s.n] = name
		s.n++
		return true
	}
	if s.many[string(name)] {
		return false
	}
	if s.many == nil {
		s.many = map[string]bool{}
	}
	s.many[string(name)] = true
	return true
}

// scan is the rest of a valid JSON text. It only finds where values end. That they are
// valid has been checked before, so a scan is an order of magnitude cheaper than a
// decoder, and copies nothing.
type scan struct{ rest []byte }

// accept skips space and then the character c. It returns false if another character
// comes next.
func (s *scan) accept(c byte) bool {
	s.skipSpace()
	if len(s.rest) == 0 || s.rest[0] != c {
		return false
	}
	s.rest = s.rest[1:]
	return true
}

// value skips the next value and returns it.
func (s *scan) value() []byte {
	s.skipSpace()
	n := valueLength(s.rest)
	v := s.rest[:n]
	s.rest = s.rest[n:]
	return v
}

func (s *scan) skipSpace() {
	for len(s.rest) > 0 && (s.rest[0] == ' ' || s.rest[0] == '\n' || s.rest[0] == '\t' || s.rest[0] == '\r') {
		s.rest = s.rest[1:]
	}
}

// valueLength returns the length of the value at the start of data.
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
		if depth < 0 { // the end of the object or list that holds the value
			return i
		}
	}
	return len(data)
}

// stringLength returns the length of the string at the start of data, both quotes
// included.
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
