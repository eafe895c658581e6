package rule

import _ "embed"

//go:embed builtin.yaml
var builtinFile []byte

// BuiltinFile returns the rule file of [Builtin].
func BuiltinFile() File { return File{Name: "builtin.yaml", Data: append([]byte(nil), builtinFile...)} }

// Builtin returns the rule set of a server that was given none: 100 requests
// a minute for each API key, or address without one, and 1000 a minute for an
// address in all.
func Builtin() *Set {
	s, err := Parse(BuiltinFile())
	if err != nil {
		return nil // a test holds that the file of this package is without mistakes
	}
	return s
}
