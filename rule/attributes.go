package rule

import (
	"slices"
	"strings"
)

// Attributes gives access to the attributes of a request. Names are "api_key",
// "ip", "method", "path", "host", "tier", "header:NAME" with NAME in lower
// case, or any other name that rules mention. Each value is read at most once a
// decision, and only when a rule needs it. An empty value counts as absent.
type Attributes interface {
	Attribute(name string) (value string, ok bool)
}

// Timed is implemented by [Attributes] that know when the request arrived, in
// µs since the Unix epoch. That time decides whether list entries and overrides
// have expired. For other requests, the clock of this process decides.
type Timed interface {
	Attributes
	At() int64
}

// Refuser is implemented by [Attributes] that may refuse to return a value, for
// example because the request has two values where only one is allowed.
type Refuser interface {
	Attributes
	// Refusal returns the reason why Attribute returns no value under the name. It
	// returns nil when the request has no such value.
	Refusal(name string) error
}

// Map is an [Attributes] of values that are known in advance.
type Map map[string]string

// Attribute returns the value of a name.
func (m Map) Attribute(name string) (string, bool) {
	value, ok := m[name]
	return value, ok
}

// AttributeName returns the name under which rules read an attribute: for
// "header:X-Tenant" it is "header:x-tenant". Other names are unchanged.
func AttributeName(text string) string {
	if strings.HasPrefix(text, "header:") {
		return strings.ToLower(text)
	}
	return text
}

// AttributeForm returns the form of a value that rules compare and count: for
// the path "/v1//orders/" it is "/v1/orders". Only values of path, host and
// method change. The form of an address depends on the set. The form of a path
// is that of [PathDecode].
func AttributeForm(name, value string) string {
	if value == "" {
		return value
	}
	return formOf(slot(slices.Index(wellKnownNames[:], name)), value)
}
