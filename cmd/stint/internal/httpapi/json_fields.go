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

// eachMember calls visit for every member of the object in data, which is
// valid JSON. A member that is given twice is an error. It is stricter than
// encoding/json, for which the last one counts: what is misspelt or doubled
// would count wrongly for months.
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

// eachElement calls visit for every element of the list in data, which is
// valid JSON, and reports false when it is no list.
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

// countElements is how many elements the list in data has, −1 when it is no
// list.
func countElements(data []byte) (n int) {
	isList, _ := eachElement(data, func([]byte) error { n++; return nil })
	if !isList {
		return -1
	}
	return n
}

func unknownField(name []byte, known []string) error {
	if near, ok := suggest.Name(string(name), known); ok {
		return badRequest("%s: is not a known field (did you mean %s?)", shown(string(name)), near)
	}
	return badRequest("%s: is not a known field (use one of %s)", shown(string(name)), strings.Join(known, ", "))
}

// shown is a caller's text as an error repeats it: quoted and short.
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

// jsonText reads a string, which it copies only where it has escapes. Half of a
// surrogate pair, which encoding/json would replace, is refused: two different
// identities must never become one.
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

// saysReplacement reports whether the text itself holds U+FFFD.
func saysReplacement(raw []byte) bool {
	return bytes.ContainsRune(raw, utf8.RuneError) || bytes.Contains(bytes.ToLower(raw), []byte(`\ufffd`))
}
