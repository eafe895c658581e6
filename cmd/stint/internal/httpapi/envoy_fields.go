package httpapi

import (
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/stintdev/stint/internal/suggest"
)

// withNearest adds to an error of protojson, if it is of an unknown field, the
// nearest one that the message has anywhere.
func withNearest(text string, m proto.Message) string {
	_, rest, ok := strings.Cut(text, `unknown field "`)
	if !ok {
		return text
	}
	name, _, _ := strings.Cut(rest, `"`)
	if near, ok := suggest.Name(name, jsonNames(m.ProtoReflect().Descriptor(), map[protoreflect.FullName]bool{})); ok {
		return text + " (did you mean " + near + "?)"
	}
	return text
}

// jsonNames are the names of the fields of a message, and of those within it
// that were not seen before.
func jsonNames(m protoreflect.MessageDescriptor, seen map[protoreflect.FullName]bool) (names []string) {
	if seen[m.FullName()] {
		return nil
	}
	seen[m.FullName()] = true
	for i := range m.Fields().Len() {
		f := m.Fields().Get(i)
		names = append(names, f.JSONName())
		if f.Message() != nil {
			names = append(names, jsonNames(f.Message(), seen)...)
		}
	}
	return names
}
