package decisionlog

import (
	"math/bits"
)

// sipKey is a key of SipHash.
type sipKey struct{ k0, k1 uint64 }

// sum returns SipHash-1-3 of a text (Aumasson and Bernstein, "SipHash: a fast short-input
// PRF"). Unlike the seeded hashes of the standard library, it is the same on every node.
func (k sipKey) sum(text string) uint64 {
	v0, v1 := k.k0^0x736f6d6570736575, k.k1^0x646f72616e646f6d
	v2, v3 := k.k0^0x6c7967656e657261, k.k1^0x7465646279746573
	last := uint64(len(text)) << 56
	for ; len(text) >= 8; text = text[8:] {
		word := uint64(text[0]) | uint64(text[1])<<8 | uint64(text[2])<<16 | uint64(text[3])<<24 |
			uint64(text[4])<<32 | uint64(text[5])<<40 | uint64(text[6])<<48 | uint64(text[7])<<56
		v3 ^= word
		v0, v1, v2, v3 = sipRound(v0, v1, v2, v3)
		v0 ^= word
	}
	for i := range len(text) {
		last |= uint64(text[i]) << (8 * i)
	}
	v3 ^= last
	v0, v1, v2, v3 = sipRound(v0, v1, v2, v3)
	v0 ^= last
	v2 ^= 0xff
	for range 3 {
		v0, v1, v2, v3 = sipRound(v0, v1, v2, v3)
	}
	return v0 ^ v1 ^ v2 ^ v3
}

func sipRound(v0, v1, v2, v3 uint64) (a, b, c, d uint64) {
	v0, v2 = v0+v1, v2+v3
	v1, v3 = bits.RotateLeft64(v1, 13)^v0, bits.RotateLeft64(v3, 16)^v2
	v0 = bits.RotateLeft64(v0, 32)
	v2, v0 = v2+v1, v0+v3
	v1, v3 = bits.RotateLeft64(v1, 17)^v2, bits.RotateLeft64(v3, 21)^v0
	return v0, v1, bits.RotateLeft64(v2, 32), v3
}
