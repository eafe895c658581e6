package stint

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// partSeparator separates the parts of a key. [ValidateKey] refuses control
// characters in each part, so no part can contain the separator.
const partSeparator = "\x00"

// JoinKey joins the parts of an identity into one key. Two different lists of
// valid parts never give the same key.
func JoinKey(parts ...string) string { return strings.Join(parts, partSeparator) }

// KeyParts splits a key into the parts that [JoinKey] joined.
func KeyParts(key string) []string { return strings.Split(key, partSeparator) }

// ValidateKey returns an error for an invalid key, or an invalid part of a key,
// that came from outside. A valid key is not empty, is at most [MaxKey] bytes
// of valid UTF-8, and has no control characters.
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
