package httpapi

import (
	"github.com/stintdev/stint/cmd/stint/internal/decide"
	"github.com/stintdev/stint/rule"
)

// attributes implements [rule.Attributes] for the attributes that a caller sends. It is
// reused between requests to avoid allocations.
type attributes struct {
	few  []attribute
	many map[string]string // attributes beyond maxFew
}

type attribute struct{ name, value string }

// maxFew is the number of attributes that are searched linearly.
const maxFew = 16

// Attribute returns the value of the named attribute.
func (a *attributes) Attribute(name string) (string, bool) {
	for i := range a.few {
		if a.few[i].name == name {
			return a.few[i].value, true
		}
	}
	value, ok := a.many[name]
	return value, ok
}

func (a *attributes) add(name, value string) {
	if len(a.few) < maxFew {
		a.few = append(a.few, attribute{name, value})
		return
	}
	if a.many == nil {
		a.many = map[string]string{}
	}
	a.many[name] = value
}

// reset drops the caller's values but keeps the slice.
func (a *attributes) reset() {
	clear(a.few)
	a.few, a.many = a.few[:0], nil
}

// read parses the members of a JSON object. The value of a number or a boolean is its
// JSON text.
func (a *attributes) read(raw []byte, s *decide.Strings) error {
	return eachMember(raw, func(name, raw []byte) error {
		value, err := attributeText(raw)
		if err != nil {
			return within(shown(string(name)), err)
		}
		a.add(attributeName(name, s), s.Keep(value))
		return nil
	})
}

// attributeName returns the canonical name of an attribute, as rules use it. The most
// common names need no allocation.
func attributeName(name []byte, s *decide.Strings) string {
	switch string(name) {
	case "api_key":
		return "api_key"
	case "ip":
		return "ip"
	case "method":
		return "method"
	case "path":
		return "path"
	case "host":
		return "host"
	}
	return rule.AttributeName(s.Keep(name))
}

func attributeText(raw []byte) ([]byte, error) {
	switch raw[0] {
	case '"':
		return jsonText(raw)
	case '{', '[', 'n':
		return nil, badRequest("must be a string, a number, true or false")
	}
	return raw, nil
}
