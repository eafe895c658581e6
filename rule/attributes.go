package rule

import (
	"slices"
	"strings"
)

// Attributes is what a request says of itself. Names are "api_key", "ip",
// "method", "path", "host", "tier", "header:NAME" with NAME in lower case, or
// any other that rules mention. A value is asked for at most once a decision,
// and only when a rule needs it; an empty value counts as absent.
type Attributes interface {
	Attribute(name string) (value string, ok bool)
}

// Timed is [Attributes] that say when the request came, in µs since the Unix
// epoch: list entries and overrides that end are judged by it. Those of other
// requests are judged by the clock of this process.
type Timed interface {
	Attributes
	At() int64
}

// Refuser is [Attributes] that may refuse to give a value: of a request that
// says two values where only one can count, for example.
type Refuser interface {
	Attributes
	// Refusal returns why Attribute returns no value under that name. It is nil
	// when the request says nothing there.
	Refusal(name string) error
}

// Map is [Attributes] that are all known beforehand.
type Map map[string]string

// Attribute returns the value of a name.
func (m Map) Attribute(name string) (string, bool) {
	value, ok := m[name]
	return value, ok
}

// AttributeName is an attribute as rules ask for it, however the one who names
// it writes it: of "header:X-Tenant" it is "header:x-tenant", and others are as
// they stand.
func AttributeName(text string) string {
	if strings.HasPrefix(text, "header:") {
		return strings.ToLower(text)
	}
	return text
}

// AttributeForm is a value as rules compare and count it, however it was
// written: of the path "/v1//orders/" it is "/v1/orders". Values of attributes
// other than path, host and method are as they stand; the form of an address
// depends on the set, and that of a path is the one without
// [Set.KeepPathEncoding].
func AttributeForm(name, value string) string {
	if value == "" {
		return value
	}
	return formOf(slot(slices.Index(wellKnownNames[:], name)), value)
}
