package stint

import (
	"crypto/rand"
	"encoding/binary"
	"math/bits"

	"github.com/stintdev/stint/internal/table"
)

// secrets make the identities of one store unlike those of any other: nobody
// who does not know them can choose two keys of one identity.
type secrets [4]uint64

func newSecrets() (s secrets) {
	var random [32]byte
	_, _ = rand.Read(random[:]) // never fails
	for i := range s {
		s[i] = binary.LittleEndian.Uint64(random[8*i:])
	}
	return s
}

// identify returns 128 bits for a key under the scope of a limit. They come
// from two lanes of folded multiplications (Wang Yi, wyhash, 2019), which
// share no secret before they are mixed: 16 bytes of the key a step, in half the
// time of two runs of the runtime's hash.
func (s *secrets) identify(key string, salt *[2]uint64) table.ID {
	size := uint64(len(key))
	x, y := s[0], s[2]
	for ; len(key) > 16; key = key[16:] {
		a, b := eight(key), eight(key[8:])
		x, y = fold(a^s[1], b^x), fold(a^s[3], b^y)
	}
	// What is left, in two words that may overlap: strings of different lengths
	// may have the same, so the length is mixed in apart.
	var a, b uint64
	if n := len(key); n >= 8 {
		a, b = eight(key), eight(key[n-8:])
	} else {
		a, b = short(key)
	}
	x, y = fold(a^s[1], b^x), fold(a^s[3], b^y)
	return table.ID{Hash: fold(x^s[2]^size, y) ^ salt[0], Rest: fold(y^s[0]^size, x) ^ salt[1]}
}

// short is up to 7 bytes in two words, which may overlap.
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

// eight and four read the first bytes of s; the compiler makes one load of it.
func eight(s string) uint64 {
	_ = s[7]
	return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
		uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
}

func four(s string) uint64 {
	_ = s[3]
	return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24
}
