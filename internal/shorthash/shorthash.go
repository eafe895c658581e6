// Package shorthash names a limit in few bytes.
//
// A store with many keys writes the hash in each of them in place of the
// rule, the limit and its shape, and the rules refuse to load when two of
// their limits share one. It promises 42 bits of SHA-256 in 7 characters of
// A-Z, a-z, 0-9, - and _, the same in every version.
//
// Names that callers make up are hashed by [Long]: nobody checks those for
// collisions, and whoever chooses a name can try many.
package shorthash

import (
	"crypto/sha256"
	"encoding/base64"
	"strconv"
)

// Length is how many characters a hash has.
const Length = 7

// LongLength is how many characters a long hash has: 132 bits.
const LongLength = 22

// Of returns the hash of a limit: of its rule, its name in the rule, and the
// shape of what it counts. No two different triples are hashed as the same text.
func Of(rule, name, shape string) string {
	return encode(rule, name, shape)[:Length]
}

// Long is Of with 22 characters.
func Long(rule, name, shape string) string {
	return encode(rule, name, shape)[:LongLength]
}

func encode(rule, name, shape string) string {
	text := make([]byte, 0, 192)
	for _, part := range [...]string{rule, name, shape} {
		text = strconv.AppendInt(text, int64(len(part)), 10)
		text = append(append(text, ':'), part...)
	}
	sum := sha256.Sum256(text)
	return base64.RawURLEncoding.EncodeToString(sum[:18])
}
