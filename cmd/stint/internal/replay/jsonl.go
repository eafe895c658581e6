package replay

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/stintdev/stint/rule"
)

// readObject appends the members of a line that is one JSON object. A line in
// common form needs no allocation. encoding/json handles all other lines with
// the same result.
func readObject(line string, f fields) (fields, error) {
	read, ok := scanObject(line, f)
	if !ok {
		var err error
		if read, err = decodeObject(line, f); err != nil {
			return read, err
		}
	}
	for i := range read {
		read[i].name = rule.AttributeName(read[i].name)
	}
	return read, nil
}

// scanObject is readObject for objects whose members are strings, integers,
// booleans and nulls. It returns false for any other line; the appended fields
// are then invalid.
func scanObject(line string, f fields) (fields, bool) {
	s := scanner{text: line}
	if !s.symbol('{') {
		return f, false
	}
	if s.symbol('}') {
		return f, s.ended()
	}
	for {
		var member field
		if !s.member(&member) {
			return f, false
		}
		f = append(f, member)
		if !s.symbol(',') {
			return f, s.symbol('}') && s.ended()
		}
	}
}

// scanner parses JSON from left to right. Its methods return false for text
// that they do not handle.
type scanner struct {
	text string
	at   int
}

func (s *scanner) space() {
	for s.at < len(s.text) {
		switch s.text[s.at] {
		case ' ', '\t', '\r', '\n':
			s.at++
		default:
			return
		}
	}
}

func (s *scanner) symbol(c byte) bool {
	s.space()
	if s.at >= len(s.text) || s.text[s.at] != c {
		return false
	}
	s.at++
	return true
}

func (s *scanner) ended() bool {
	s.space()
	return s.at == len(s.text)
}

func (s *scanner) member(m *field) (ok bool) {
	m.name, ok = s.name()
	return ok && s.value(m)
}

// name reads the name of a member, and what is between it and its value.
func (s *scanner) name() (string, bool) {
	name, ok := s.string()
	ok = ok && s.symbol(':')
	s.space()
	return name, ok
}

// value reads the value of a member.
func (s *scanner) value(m *field) (ok bool) {
	if s.at >= len(s.text) {
		return false
	}
	switch c := s.text[s.at]; {
	case c == '"':
		m.kind = kindText
		m.value, ok = s.string()
	case c == '-' || '0' <= c && c <= '9':
		m.kind = kindNumber
		m.value, ok = s.number()
	default:
		m.kind, m.value, ok = s.literal()
	}
	return ok
}

func (s *scanner) string() (string, bool) {
	if !s.symbol('"') {
		return "", false
	}
	start, plain := s.at, true
	for ; s.at < len(s.text); s.at++ {
		switch c := s.text[s.at]; {
		case c == '"':
			s.at++
			if plain {
				return s.text[start : s.at-1], true
			}
			return unquote(s.text[start-1 : s.at])
		case c < ' ':
			return "", false
		case c == '\\':
			plain = false
			s.at++
		case c >= utf8.RuneSelf:
			plain = false
		}
	}
	return "", false
}

// unquote decodes a JSON string that has escapes or is not ASCII.
func unquote(quoted string) (text string, ok bool) {
	if !utf8.ValidString(quoted) {
		return "", false
	}
	if strings.IndexByte(quoted, '\\') < 0 {
		return quoted[1 : len(quoted)-1], true
	}
	err := json.Unmarshal([]byte(quoted), &text)
	return text, err == nil
}

func (s *scanner) number() (string, bool) {
	start := s.at
	if s.text[s.at] == '-' {
		s.at++
	}
	whole := s.digits()
	if len(whole) == 0 || len(whole) > 1 && whole[0] == '0' {
		return "", false
	}
	if s.at < len(s.text) && (s.text[s.at] == '.' || s.text[s.at]|0x20 == 'e') {
		return "", false // rare; encoding/json handles it
	}
	return s.text[start:s.at], true
}

func (s *scanner) digits() string {
	start := s.at
	for s.at < len(s.text) && '0' <= s.text[s.at] && s.text[s.at] <= '9' {
		s.at++
	}
	return s.text[start:s.at]
}

func (s *scanner) literal() (fieldKind, string, bool) {
	rest := s.text[s.at:]
	for _, known := range [...]field{{"", "true", kindBool}, {"", "false", kindBool}, {"", "null", kindNull}} {
		if strings.HasPrefix(rest, known.value) {
			s.at += len(known.value)
			return known.kind, known.value, true
		}
	}
	return 0, "", false
}

// decodeObject is readObject with encoding/json.
func decodeObject(line string, f fields) (fields, error) {
	if !utf8.ValidString(line) {
		return f, errors.New("is not valid UTF-8")
	}
	var whole json.RawMessage
	if err := json.Unmarshal([]byte(line), &whole); err != nil {
		return f, fmt.Errorf("is not JSON: %w", err)
	}
	in := json.NewDecoder(strings.NewReader(line))
	if first, _ := in.Token(); first != json.Delim('{') {
		return f, errors.New("is JSON, but not an object")
	}
	for in.More() {
		member, err := decodeMember(in)
		if err != nil {
			return f, fmt.Errorf("is not JSON: %w", err)
		}
		f = append(f, member)
	}
	return f, nil
}

func decodeMember(in *json.Decoder) (field, error) {
	name, err := in.Token()
	if err != nil {
		return field{}, err
	}
	var raw json.RawMessage
	if err := in.Decode(&raw); err != nil {
		return field{}, err
	}
	text, _ := name.(string)
	m := field{name: text, value: string(raw), kind: kindNumber}
	switch raw[0] {
	case '"':
		m.kind = kindText
		err = json.Unmarshal(raw, &m.value)
	case '{', '[':
		m.kind = kindCompound
	case 't', 'f':
		m.kind = kindBool
	case 'n':
		m.kind = kindNull
	}
	return m, err
}

const hexDigits = "0123456789abcdef"

// appendQuoted appends text as a JSON string. Invalid UTF-8 becomes U+FFFD, as
// in encoding/json. It escapes only what JSON requires.
func appendQuoted(out []byte, text string) []byte {
	out = append(out, '"')
	start := 0
	for i := 0; i < len(text); {
		c := text[i]
		if c >= ' ' && c != '"' && c != '\\' && c < utf8.RuneSelf {
			i++
			continue
		}
		size := 1
		if c >= utf8.RuneSelf {
			var r rune
			if r, size = utf8.DecodeRuneInString(text[i:]); r != utf8.RuneError || size > 1 {
				i += size
				continue
			}
		}
		out = append(out, text[start:i]...)
		out = appendEscape(out, c)
		i += size
		start = i
	}
	return append(append(out, text[start:]...), '"')
}

// appendEscape appends the escape of a byte that a JSON string cannot contain.
func appendEscape(out []byte, c byte) []byte {
	switch {
	case c >= utf8.RuneSelf:
		return append(out, `\ufffd`...)
	case c == '"' || c == '\\':
		return append(out, '\\', c)
	}
	return append(out, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
}
