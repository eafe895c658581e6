package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/stintdev/stint/internal/nearest"
)

// maxBody bounds the body of an API request, in bytes. A greater one is
// answered with 413 before it is read to its end.
const maxBody = 1 << 20

// readBody reads the whole body, and no more than maxBody of it.
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return nil, &apiError{http.StatusRequestEntityTooLarge, codeTooLarge,
			fmt.Sprintf("body: is larger than %d bytes", maxBody)}
	case err != nil:
		return nil, badRequest("body: could not be read: %v", err)
	case !utf8.Valid(body):
		return nil, badRequest("body: is not valid UTF-8")
	}
	return body, nil
}

// fields are the members that a JSON object may have, each with what reads
// its value.
type fields map[string]func(raw json.RawMessage) error

// decodeObject reads data as exactly one JSON object of these fields, each at
// most once. It is stricter than encoding/json: a name must match to the
// letter, and nothing is skipped in silence, because a misspelt "cost" would
// count wrongly for months.
func decodeObject(data []byte, known fields) error {
	return eachMember(data, func(name string, raw json.RawMessage) error {
		read, ok := known[name]
		if !ok {
			return unknownField(name, known)
		}
		return read(raw)
	})
}

// eachMember calls visit for every member of the JSON object in data.
func eachMember(data []byte, visit func(name string, raw json.RawMessage) error) error {
	d := json.NewDecoder(bytes.NewReader(data))
	if err := openObject(d); err != nil {
		return err
	}
	seen := map[string]bool{}
	for d.More() {
		name, raw, err := member(d)
		if err != nil {
			return err
		}
		if seen[name] {
			return badRequest("%s: is given twice", shown(name))
		}
		seen[name] = true
		if err := visit(name, raw); err != nil {
			return err
		}
	}
	return closeObject(d)
}

func openObject(d *json.Decoder) error {
	token, err := d.Token()
	if err != nil {
		return notJSON(err)
	}
	if token != json.Delim('{') {
		return badRequest("a JSON object is expected, such as {\"cost\":1}")
	}
	return nil
}

func member(d *json.Decoder) (name string, raw json.RawMessage, err error) {
	token, err := d.Token()
	if err != nil {
		return "", nil, notJSON(err)
	}
	if err := d.Decode(&raw); err != nil {
		return "", nil, notJSON(err)
	}
	return token.(string), raw, nil // the decoder accepts no other name
}

func closeObject(d *json.Decoder) error {
	if _, err := d.Token(); err != nil {
		return notJSON(err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return badRequest("body: has more after the JSON object")
	}
	return nil
}

func notJSON(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return badRequest("body: is not JSON: it ends too early")
	}
	return badRequest("body: is not JSON: %v", err)
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
	var e *apiError
	if errors.As(err, &e) {
		return &apiError{e.status, e.code, field + ": " + e.message}
	}
	return badRequest("%s: %v", field, err)
}

// stringField reads a JSON string into out.
func stringField(field string, out *string) func(json.RawMessage) error {
	return func(raw json.RawMessage) error {
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
func jsonString(raw json.RawMessage) (string, error) {
	var s string
	if len(raw) == 0 || raw[0] != '"' || json.Unmarshal(raw, &s) != nil {
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
