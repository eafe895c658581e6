package rule

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/stintdev/stint"
)

// maxLimitJSON is the largest limit in a request, in bytes.
const maxLimitJSON = 4096

// ParseLimit combines [ParseSpec] and [stint.Spec.Compile].
func ParseLimit(data []byte) (stint.Limit, error) {
	s, err := ParseSpec(data)
	if err != nil {
		return stint.Limit{}, err
	}
	return s.Compile()
}

// ParseSpec parses a limit in the form that requests use: a JSON object such as
// {"algorithm":"gcra","limit":10,"window":"1s","burst":5}, or 100/m with or
// without quotes. Numbers may be quoted and never pass through a float. An
// unknown or repeated field is an error.
//
// The error is a [*stint.LimitError]. ParseSpec does not validate the spec as a
// whole. Its Compile method does, after the caller has set the scope.
func ParseSpec(data []byte) (stint.Spec, error) {
	data = bytes.TrimSpace(data)
	if len(data) > maxLimitJSON {
		return stint.Spec{}, limitSyntax(fmt.Sprintf("is %d bytes long", len(data)))
	}
	if len(data) == 0 || data[0] != '{' {
		return parseShort(data)
	}
	l, name := &level{}, ""
	err := eachField(data, func(field, text string) error {
		if field == "name" {
			name = text
			return nil
		}
		p, _ := parameterOf(field)
		return asNamed(field, l.set(p, located{text: text}))
	})
	if err == nil {
		err = l.missing()
	}
	l.spec.Name = name
	return l.spec, err
}

func parseShort(data []byte) (stint.Spec, error) {
	text := string(data)
	if len(data) > 0 && data[0] == '"' {
		if err := json.Unmarshal(data, &text); err != nil {
			return stint.Spec{}, limitSyntax(err.Error())
		}
	}
	return stint.ParseSpec(text)
}

// next returns the next token of a limit.
func next(d *json.Decoder) (json.Token, error) {
	token, err := d.Token()
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return nil, limitSyntax("ends too soon")
	case err != nil:
		return nil, limitSyntax(err.Error())
	}
	return token, nil
}

func limitSyntax(problem string) error {
	return &stint.LimitError{Field: "limit", Problem: problem, Mend: `write {"limit":100,"window":"1m"} or "100/m"`}
}

// eachField calls each for every field of a JSON object of plain values.
// Numbers are passed as their text.
func eachField(data []byte, each func(field, text string) error) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	if _, err := next(d); err != nil {
		return err
	}
	var seen []string
	for d.More() {
		field, text, err := nextField(d)
		if err != nil {
			return err
		}
		if slices.Contains(seen, field) {
			return &stint.LimitError{Field: field, Problem: "is given twice", Mend: "remove one"}
		}
		seen = append(seen, field)
		if err := each(field, text); err != nil {
			return err
		}
	}
	if _, err := next(d); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return limitSyntax("other text follows the limit")
	}
	return nil
}

func nextField(d *json.Decoder) (field, text string, err error) {
	token, err := next(d)
	if err != nil {
		return "", "", err
	}
	field, _ = token.(string)
	if _, known := parameterOf(field); !known && field != "name" {
		return "", "", &stint.LimitError{Field: "limit", Problem: fmt.Sprintf("has no field %.40q", field), Mend: nearestMend(field, append([]string{"name", "burst"}, parameterNames[:]...))}
	}
	if token, err = next(d); err != nil {
		return "", "", err
	}
	switch value := token.(type) {
	case string:
		text = value
	case json.Number:
		text = value.String()
	}
	if text == "" {
		return "", "", &stint.LimitError{Field: field, Problem: "is neither a number nor text", Mend: "give it one, or remove it"}
	}
	return field, text, nil
}
