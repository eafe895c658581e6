// Package jsonpos parses JSON into values with their positions.
//
// Use it where a message about a JSON text names a line and a column:
// encoding/json reports no positions, and YAML parsers, which do, do not accept
// all JSON. It keeps the order of keys and the text of numbers.
package jsonpos

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// Kind is the kind of a [Value].
type Kind uint8

// The kinds.
const (
	Null Kind = iota
	Literal
	String
	Array
	Object
)

// Value is one value of a JSON text.
type Value struct {
	Kind         Kind
	Text         string // of a String, or of a Literal as it is written
	Line, Column int    // position of the first byte, from 1
	// Items holds the items of an Array, or the keys and values of an Object in
	// turn.
	Items []*Value
}

// IsDocument reports whether data is a JSON text other than null. The text null
// is also an empty YAML document, and is extended as such.
func IsDocument(data []byte) bool {
	return json.Valid(data) && string(bytes.TrimSpace(data)) != "null"
}

// Parse parses a valid JSON text.
func Parse(data []byte) *Value {
	p := &parser{data: data, decoder: json.NewDecoder(bytes.NewReader(data)), line: 1, column: 1}
	p.decoder.UseNumber()
	return p.value()
}

type parser struct {
	data         []byte
	decoder      *json.Decoder
	line, column int // position of the byte at offset
	offset       int
}

func (p *parser) value() *Value {
	p.skip()
	v := &Value{Line: p.line, Column: p.column}
	token, err := p.decoder.Token()
	if err != nil {
		return v // the text is known to be valid
	}
	switch t := token.(type) {
	case json.Delim:
		v.Kind = Array
		if t == '{' {
			v.Kind = Object
		}
		for p.decoder.More() {
			v.Items = append(v.Items, p.value())
		}
		_, _ = p.decoder.Token()
	case string:
		v.Kind, v.Text = String, t
	case nil:
	default:
		v.Kind, v.Text = Literal, fmt.Sprint(t)
	}
	return v
}

// skip advances to the start of the next token.
func (p *parser) skip() {
	to := int(p.decoder.InputOffset())
	for to < len(p.data) && strings.IndexByte(" \t\r\n,:", p.data[to]) >= 0 {
		to++
	}
	for ; p.offset < to; p.offset++ {
		p.column++
		if p.data[p.offset] == '\n' {
			p.line, p.column = p.line+1, 1
		}
	}
}
