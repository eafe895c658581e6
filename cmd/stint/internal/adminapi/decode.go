package adminapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stintdev/stint/internal/suggest"
)

// fields maps each allowed member of a JSON object to the function that reads its
// value.
type fields map[string]func(raw json.RawMessage) error

// decode reads one JSON object. Each field may occur once.
func decode(data []byte, known fields) error {
	d := json.NewDecoder(bytes.NewReader(data))
	if token, err := d.Token(); err != nil || token != json.Delim('{') {
		return badRequest("body: a JSON object is expected")
	}
	seen := map[string]bool{}
	for d.More() {
		if err := member(d, known, seen); err != nil {
			return err
		}
	}
	if _, err := d.Token(); err != nil {
		return badRequest("body: is not JSON")
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return badRequest("body: has text after the JSON object (send one object)")
	}
	return nil
}

func member(d *json.Decoder, known fields, seen map[string]bool) error {
	token, err := d.Token()
	name, isText := token.(string)
	var raw json.RawMessage
	if err == nil && isText {
		err = d.Decode(&raw)
	}
	if err != nil || !isText {
		return badRequest("body: is not JSON")
	}
	read, ok := known[name]
	switch {
	case !ok:
		return unknownField(name, known)
	case seen[name]:
		return badRequest("%s: is given twice", name)
	}
	seen[name] = true
	if err := read(raw); err != nil {
		return badRequest("%s: %v", name, err)
	}
	return nil
}

func unknownField(name string, known fields) error {
	if near, ok := suggest.Name(name, slices.Sorted(maps.Keys(known))); ok {
		return badRequest("%.60q: is not a known field (did you mean %s?)", name, near)
	}
	return badRequest("%.60q: is not a known field", name)
}

func textField(out *string) func(json.RawMessage) error {
	return func(raw json.RawMessage) error {
		if len(raw) == 0 || raw[0] != '"' {
			return errors.New("must be a string")
		}
		return json.Unmarshal(raw, out)
	}
}

// wholeField reads a whole number, written in digits.
func wholeField(out *int64, least, most int64) func(json.RawMessage) error {
	return func(raw json.RawMessage) error {
		n, err := strconv.ParseInt(string(raw), 10, 64)
		if err != nil || n < least || n > most {
			return fmt.Errorf("%.40s is not a whole number from %d to %d", raw, least, most)
		}
		*out = n
		return nil
	}
}

// untilField reads an RFC 3339 time in the future.
func (a *API) untilField(out *time.Time) func(json.RawMessage) error {
	return parsedField(func(text string) error {
		at, err := time.Parse(time.RFC3339, text)
		if err != nil {
			return fmt.Errorf("%.40q is not a time (write it as 2026-01-31T12:00:00Z)", text)
		}
		return a.end(at, out)
	})
}

// forField reads a duration from now.
func (a *API) forField(out *time.Time) func(json.RawMessage) error {
	return parsedField(func(text string) error { return a.endAfter(text, out) })
}

// parsedField reads a string and parses it.
func parsedField(parse func(text string) error) func(json.RawMessage) error {
	return func(raw json.RawMessage) error {
		var text string
		if err := textField(&text)(raw); err != nil {
			return err
		}
		return parse(text)
	}
}

func (a *API) endAfter(text string, out *time.Time) error {
	d, err := span(text)
	if err != nil {
		return err
	}
	return a.end(a.now().Add(d), out)
}

// mostYears is the largest distance of an end: a longer one is permanent.
const mostYears = 10

// end sets an end in the future, rounded up to whole seconds.
func (a *API) end(at time.Time, out *time.Time) error {
	now := a.now()
	if !at.After(now) || at.After(now.AddDate(mostYears, 0, 0)) {
		return fmt.Errorf("the end must be in the future, at most %d years from now", mostYears)
	}
	*out = at.Add(time.Second - 1).Truncate(time.Second)
	return nil
}

// mostDays is more than any valid number of days, so that none overflows.
const mostDays = 100 * 366

// span parses a duration such as 90s, 12h or 30d.
func span(text string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.ParseUint(days, 10, 63); err == nil {
			return time.Duration(min(n, mostDays)) * 24 * time.Hour, nil
		}
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, fmt.Errorf("%.40q is not a duration (write it as 15m, 12h or 30d)", text)
	}
	return d, nil
}
