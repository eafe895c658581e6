// Package siphash hashes short texts that callers choose, under a secret key. The nodes that have
// the same key get the same hashes, unlike those of hash/maphash, and a caller who does not know
// the key can choose no text with a certain hash.
package siphash

import (
	"encoding/binary"
	"math/bits"
)

// Key is a key of SipHash.
type Key struct{ k0, k1 uint64 }

// KeyOf returns the key of 16 bytes.
func KeyOf(secret [16]byte) Key {
	return Key{binary.LittleEndian.Uint64(secret[:8]), binary.LittleEndian.Uint64(secret[8:])}
}

// Sum returns SipHash-1-3 of a text (Aumasson and Bernstein, "SipHash: a fast short-input PRF").
func (k Key) Sum(text string) uint64 {
	v0, v1 := k.k0^0x736f6d6570736575, k.k1^0x646f72616e646f6d
	v2, v3 := k.k0^0x6c7967656e657261, k.k1^0x7465646279746573
	last := uint64(len(text)) << 56
	for ; len(text) >= 8; text = text[8:] {
		word := uint64(text[0]) | uint64(text[1])<<8 | uint64(text[2])<<16 | uint64(text[3])<<24 |
			uint64(text[4])<<32 | uint64(text[5])<<40 | uint64(text[6])<<48 | uint64(text[7])<<56
		v3 ^= word
		v0, v1, v2, v3 = round(v0, v1, v2, v3)
		v0 ^= word
	}
	for i := range len(text) {
		last |= uint64(text[i]) << (8 * i)
	}
	v3 ^= last
	v0, v1, v2, v3 = round(v0, v1, v2, v3)
	v0 ^= last
	v2 ^= 0xff
	for range 3 {
		v0, v1, v2, v3 = round(v0, v1, v2, v3)
	}
	return v0 ^ v1 ^ v2 ^ v3
}

func round(v0, v1, v2, v3 uint64) (a, b, c, d uint64) {
	v0, v2 = v0+v1, v2+v3
	v1, v3 = bits.RotateLeft64(v1, 13)^v0, bits.RotateLeft64(v3, 16)^v2
	v0 = bits.RotateLeft64(v0, 32)
	v2, v0 = v2+v1, v0+v3
	v1, v3 = bits.RotateLeft64(v1, 17)^v2, bits.RotateLeft64(v3, 21)^v0
	return v0, v1, bits.RotateLeft64(v2, 32), v3
}
