package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/stintdev/stint/internal/nearest"
)

// fields are the members that a JSON object may have, each with what reads
// its value.
type fields map[string]func(raw []byte) error

// decodeObject reads valid JSON as one object of these fields, each at most
// once. It is stricter than encoding/json: a name must match to the letter,
// and nothing is skipped in silence, because a misspelt "cost" would count
// wrongly for months.
func decodeObject(data []byte, known fields) error {
	return eachMember(data, func(name string, raw []byte) error {
		read, ok := known[name]
		if !ok {
			return unknownField(name, known)
		}
		return read(raw)
	})
}

// eachMember calls visit for every member of the object in data, which is
// valid JSON.
func eachMember(data []byte, visit func(name string, raw []byte) error) error {
	s := scan{data}
	if !s.accept('{') {
		return badRequest("a JSON object is expected")
	}
	seen := make(map[string]bool, 8)
	for !s.accept('}') {
		name, err := jsonString(s.value())
		if err != nil {
			return err
		}
		if seen[name] {
			return badRequest("%s: is given twice", shown(name))
		}
		seen[name] = true
		s.accept(':')
		if err := visit(name, s.value()); err != nil {
			return err
		}
		s.accept(',')
	}
	return nil
}

func unknownField(name string, known fields) error {
	names := make([]string, 0, len(known))
	for n := range known {
		names = append(names, n)
	}
	if near, ok := nearest.Name(name, names); ok {
		return badRequest("%s: is not a known field (did you mean %s?)", shown(name), near)
	}
	return badRequest("%s: is not a known field", shown(name))
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

// stringField reads a JSON string into out.
func stringField(field string, out *string) func([]byte) error {
	return func(raw []byte) error {
		s, err := jsonString(raw)
		if err != nil {
			return within(field, err)
		}
		*out = s
		return nil
	}
}

// jsonString reads a string. Half of a surrogate pair, which encoding/json
// would replace, is refused: two different identities must never become one.
func jsonString(raw []byte) (string, error) {
	if raw[0] != '"' {
		return "", badRequest("must be a string")
	}
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw[1 : len(raw)-1]), nil
	}
	var s string
	if err := json.Unmarshal(raw, &s); err != nil {
		return "", badRequest("must be a string")
	}
	if strings.ContainsRune(s, utf8.RuneError) && !saysReplacement(raw) {
		return "", badRequest("has half of a surrogate pair")
	}
	return s, nil
}

// saysReplacement reports whether the text itself holds U+FFFD.
func saysReplacement(raw []byte) bool {
	return bytes.ContainsRune(raw, utf8.RuneError) || bytes.Contains(bytes.ToLower(raw), []byte(`\ufffd`))
}
