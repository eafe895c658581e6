package server

import "github.com/stintdev/stint/rule"

// attributes are what a caller says of a request: a [rule.Attributes] that is
// read into the room of the one before it.
type attributes struct {
	few  []attribute
	many map[string]string // those beyond the few
}

type attribute struct{ name, value string }

// maxFew is how many attributes are looked for one by one.
const maxFew = 16

// Attribute returns the value of a name.
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

// reset keeps the room alone, and nothing of the caller's.
func (a *attributes) reset() {
	clear(a.few)
	a.few, a.many = a.few[:0], nil
}

// read reads the members of a JSON object. Numbers and booleans count as their
// text.
func (a *attributes) read(raw []byte, t *texts) error {
	return eachMember(raw, func(name, raw []byte) error {
		value, err := attributeText(raw)
		if err != nil {
			return within(shown(string(name)), err)
		}
		a.add(attributeName(name, t), t.keep(value))
		return nil
	})
}

// attributeName is a name as rules ask for it. It saves a copy of those that
// nearly all requests have.
func attributeName(name []byte, t *texts) string {
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
	return rule.AttributeName(t.keep(name))
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
