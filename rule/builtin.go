package rule

import _ "embed"

//go:embed builtin.yaml
var builtinFile []byte

// BuiltinFile returns the rule file of [Builtin].
func BuiltinFile() File { return File{Name: "builtin.yaml", Data: append([]byte(nil), builtinFile...)} }

// Builtin returns the rule set of a server without configured rules: 100
// requests a minute for each API key, or for the address of a request without a
// key, and 1000 requests a minute for each address in total.
func Builtin() *Set {
	s, err := Parse(BuiltinFile())
	if err != nil {
		return nil // a test checks that the embedded file has no mistakes
	}
	return s
}
