package stint

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// partSeparator joins the parts of a key. [ValidateKey] refuses control
// characters in each part, so no part can forge another.
const partSeparator = "\x00"

// JoinKey joins the parts of an identity into one key. Two different lists of
// valid parts never give the same key.
func JoinKey(parts ...string) string { return strings.Join(parts, partSeparator) }

// KeyParts splits a key into the parts that [JoinKey] joined.
func KeyParts(key string) []string { return strings.Split(key, partSeparator) }

// ValidateKey says what is wrong with a key, or one part of one, that came
// from outside: it must not be empty, is at most [MaxKey] bytes of valid
// UTF-8, and holds no control character.
func ValidateKey(key string) error {
	switch {
	case key == "":
		return invalid("key: is empty", "name whose use is counted, such as user:42")
	case len(key) > MaxKey:
		return invalid(fmt.Sprintf("key: is %d bytes long", len(key)), fmt.Sprintf("use at most %d bytes; hash what is longer", MaxKey))
	case !utf8.ValidString(key):
		return invalid("key: is not valid UTF-8", "encode it, for example as hexadecimal")
	}
	for i, r := range key {
		if r < 0x20 || r >= 0x7f && r < 0xa0 {
			return invalid(fmt.Sprintf("key: has the control character %U at byte %d", r, i), "remove or encode it")
		}
	}
	return nil
}
