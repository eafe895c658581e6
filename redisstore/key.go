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
// where hash is 7 characters for the limit (see limits.go). A Cluster computes the slot
// from the text between the braces, so all limits of one identity share a slot. With
// the default prefix an identity of 13 characters has a key of 28 bytes.
//
// The key of a limit that a caller of a server brought (stint.Spec.FromCaller)
// has callerMark after the braces, and a hash of 22 characters:
//
//	prefix:{part}~hash
//	prefix:{part}~:parthash
//
// The record of a group that may be repeated (see once.go) has recordMark after the
// braces, and the mark of an ID on a Cluster markMark, each with a hash of 22 characters:
//
//	prefix:{part}!hash      the part is that of the group's first claim on a Cluster,
//	                        and empty on one server
//	prefix:{hash}!!hash
//
// In the key of every other state a colon or a base64url character follows the braces, and
// neither a prefix nor a part can contain a brace. These keys therefore never equal the
// key of another state. Callers choose names, so their hash is long enough that they
// cannot search for two names with the same hash.
//
// A part is written as it is, except that spaces, %, braces, control characters and
// bytes that are not UTF-8 become %XX. Colons are escaped too, in the parts after the
// first. A part that is then longer than maxPart is replaced by %~ and its hash, and
// an empty first part by %-. No other part looks like these, because its own % is
// escaped. No two identities share a key.

// maxPart is the length in bytes beyond which a part is replaced by its hash.
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

// callerMark follows the braces in the keys of callers' limits, and in no other key.
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

// appendTag appends the part between the braces. It is never empty, because Redis
// ignores empty braces.
func appendTag(to []byte, part string) []byte {
	if part == "" {
		return append(to, emptyPart...)
	}
	return appendPart(to, part, '%')
}

// appendPart appends an escaped part of an identity, and also escapes the byte also.
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
