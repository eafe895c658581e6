package stint

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"math/bits"
	"strings"
	"unicode/utf8"

	"github.com/stintdev/stint/internal/table"
)

// partSeparator separates the parts of a key. [ValidateKey] refuses control
// characters in each part, so no part can contain the separator.
const partSeparator = "\x00"

// JoinKey joins the parts of an identity into one key, such as a tenant and a
// user. Two different lists of parts never give the same key, if [ValidateKey]
// accepts each part. The key may be at most [MaxKey] bytes long.
func JoinKey(parts ...string) string { return strings.Join(parts, partSeparator) }

// KeyParts splits a key into the parts that [JoinKey] joined. Any other key has one
// part, itself.
func KeyParts(key string) []string { return strings.Split(key, partSeparator) }

// ValidateKey returns an error for an invalid key, or an invalid part of a key,
// that came from outside. A valid key is not empty, is at most [MaxKey] bytes
// of valid UTF-8, and has no control characters.
func ValidateKey(key string) error {
	switch {
	case uint(len(key)-1) < MaxKey && isPrintable(key): // nearly always
		return nil
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

// isPrintable reports whether all of the text is printable ASCII.
func isPrintable(text string) bool {
	for i := range len(text) {
		if text[i]-' ' > '~'-' ' {
			return false
		}
	}
	return true
}

// secrets seed the hash of one store with random numbers. Without them, an
// attacker cannot choose two keys that have the same identity.
type secrets [4]uint64

func newSecrets() (s secrets) {
	var random [32]byte
	_, _ = rand.Read(random[:]) // never fails
	for i := range s {
		s[i] = binary.LittleEndian.Uint64(random[8*i:])
	}
	return s
}

// identify returns a 128-bit hash of a key under the scope of a limit. It
// computes two independent 64-bit hashes by folded multiplication (Wang Yi,
// wyhash, 2019), which share no secret until the end, where they are mixed. Each
// step reads 16 bytes of the key. The whole takes half the time of two runs of
// the runtime's hash.
func (s *secrets) identify(key string, salt *[2]uint64) table.ID {
	size := uint64(len(key))
	x, y := s[0], s[2]
	for ; len(key) > 16; key = key[16:] {
		a, b := eight(key), eight(key[8:])
		x, y = fold(a^s[1], b^x), fold(a^s[3], b^y)
	}
	// The rest of the key is read as two words that may overlap. Keys of
	// different lengths may give the same words, so the length is mixed in too.
	var a, b uint64
	if n := len(key); n >= 8 {
		a, b = eight(key), eight(key[n-8:])
	} else {
		a, b = short(key)
	}
	x, y = fold(a^s[1], b^x), fold(a^s[3], b^y)
	return table.ID{Hash: fold(x^s[2]^size, y) ^ salt[0], Rest: fold(y^s[0]^size, x) ^ salt[1]}
}

// short returns a string of up to 7 bytes as two words, which may overlap.
func short(s string) (a, b uint64) {
	switch n := len(s); {
	case n >= 4:
		return four(s), four(s[n-4:])
	case n > 0:
		return uint64(s[0]) | uint64(s[n/2])<<8 | uint64(s[n-1])<<16, 0
	}
	return 0, 0
}

func fold(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	return hi ^ lo
}

// eight and four read the first bytes of s. The compiler makes a single load of
// each.
func eight(s string) uint64 {
	_ = s[7]
	return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
		uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
}

func four(s string) uint64 {
	_ = s[3]
	return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24
}
