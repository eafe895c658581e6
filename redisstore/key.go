package redisstore

import (
	"crypto/sha256"
	"encoding/base64"
	"strings"
	"unicode/utf8"

	"github.com/stintdev/stint"
)

// The key of a state is
//
//	prefix:{part}hash       of an identity of one part
//	prefix:{part}:parthash  of one of several
//
// and hash is 7 characters for the limit (see limits.go). What stands between
// the braces is what a Cluster picks the slot by: all limits of one caller
// share one. For an identity of 13 characters a key has 28 bytes.
//
// The key of a limit that a caller of a server brought (stint.Spec.FromCaller)
// has callerMark behind the braces, and 22 characters of hash:
//
//	prefix:{part}~hash
//	prefix:{part}~:parthash
//
// In every other key the braces are followed by a colon or by a character of
// base64url, and neither a prefix nor a part can hold a brace: no name and no
// identity makes a caller's key that of another limit. Callers choose names, so
// their hash is long enough that they cannot search for two names that share
// one.
//
// A part is written as it is, but %, braces, control characters and bytes that
// are no UTF-8 as %XX, and colons too where they would part it. What is longer
// than maxPart then is written as its hash behind %~, an empty first part as
// %-: no part looks like that by itself, since its own % is escaped. So no two
// identities share a key.

// maxPart is the longest part of an identity that stands in a key, in bytes.
const maxPart = 64

const (
	hashedPart = "%~"
	emptyPart  = "%-"
	hexDigits  = "0123456789ABCDEF"
)

// defaultPrefix begins the keys of a store that names no prefix.
const defaultPrefix = "stint"

// prefixOf checks the prefix of a store.
func prefixOf(prefix string) (string, error) {
	if prefix == "" {
		return defaultPrefix, nil
	}
	if err := stint.ValidateKey(prefix); err != nil || len(prefix) > maxPart || strings.ContainsAny(prefix, "{} ") {
		return "", &stint.Error{Code: stint.CodeInvalid, Problem: "key prefix: must be 1 to 64 bytes of text without braces, spaces and control characters", Mend: "use letters, digits and colons", Err: err}
	}
	return prefix, nil
}

// callerMark stands behind the braces in the keys of callers' limits alone.
const callerMark = "~"

// appendKey appends the key of a state, whose limit has a mark (or none) and a
// hash.
func (e *encoding) appendKey(to []byte, identity, mark, hash string) []byte {
	to = append(to, e.prefix...)
	to = append(to, ':', '{')
	if plainPart(identity) {
		to = append(to, identity...)
		to = append(to, '}')
		to = append(to, mark...)
		return append(to, hash...)
	}
	first, rest, more := strings.Cut(identity, partSeparator)
	to = append(appendTag(to, first), '}')
	to = append(to, mark...)
	for more {
		first, rest, more = strings.Cut(rest, partSeparator)
		to = appendPart(append(to, ':'), first, ':')
	}
	return append(to, hash...)
}

// partSeparator is what stint.JoinKey puts between parts.
const partSeparator = "\x00"

// plainPart reports whether an identity is one part that needs no escaping.
func plainPart(s string) bool {
	if s == "" || len(s) > maxPart {
		return false
	}
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c >= '{' || c == '%' {
			return false
		}
	}
	return true
}

// appendTag appends the part that stands between the braces: never empty, for
// then the braces would not count.
func appendTag(to []byte, part string) []byte {
	if part == "" {
		return append(to, emptyPart...)
	}
	return appendPart(to, part, '%')
}

// appendPart appends a part of an identity, escaped, one more byte included.
func appendPart(to []byte, part string, also byte) []byte {
	start := len(to)
	if len(part) <= maxPart {
		to = appendEscaped(to, part, also)
	}
	if len(part) <= maxPart && len(to)-start <= maxPart {
		return to
	}
	sum := sha256.Sum256([]byte(part))
	to = append(to[:start], hashedPart...)
	return base64.RawURLEncoding.AppendEncode(to, sum[:18])
}

func appendEscaped(to []byte, part string, also byte) []byte {
	for len(part) > 0 {
		r, size := utf8.DecodeRuneInString(part)
		if r == utf8.RuneError && size == 1 || needsEscape(r, also) {
			for i := range size {
				to = append(to, '%', hexDigits[part[i]>>4], hexDigits[part[i]&15])
			}
		} else {
			to = append(to, part[:size]...)
		}
		part = part[size:]
	}
	return to
}

func needsEscape(r rune, also byte) bool {
	control := r < ' ' || 0x7f <= r && r < 0xa0
	return control || r == ' ' || r == '%' || r == '{' || r == '}' || r == rune(also)
}

// slotOf returns the hash slot of the states of a claim's identity.
func (e *encoding) slotOf(c *stint.Claim) uint16 {
	if plainPart(c.Key) {
		return crc16(c.Key) % slots
	}
	first, _, _ := strings.Cut(c.Key, partSeparator)
	var room [maxPart + len(hashedPart)]byte
	return crc16(string(appendTag(room[:0], first))) % slots
}
