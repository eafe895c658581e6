// Package shorthash hashes the name of a limit to a few characters.
//
// A store writes the hash into each key in place of the rule, the limit's name and its
// shape. A rule set does not load if two of its limits have the same hash. A hash is
// 42 bits of SHA-256 in 7 characters of A-Z, a-z, 0-9, - and _, and is the same in
// every version.
//
// Use [Long] for names that callers choose. No check finds their collisions, and a
// caller can search for a collision.
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

// Of returns the hash of a limit's rule, its name in the rule and the shape of its
// state. Each part is hashed with its length, so two different triples are never the
// same text.
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
