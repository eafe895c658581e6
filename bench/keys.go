package main

import (
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"strings"
)

// keyLength is the length of every key, about that of an API key or of an
// address with a prefix.
const keyLength = 24

// keyText is n different keys in one string. Fetching a key needs no access to a second
// array. A limiter that keeps its keys keeps these bytes.
type keyText string

func newKeyText(n int) keyText {
	var b strings.Builder
	b.Grow(n * keyLength)
	var key [keyLength]byte
	for i := range n {
		b.Write(writeKey(key[:], i))
	}
	return keyText(b.String())
}

// writeKey writes key number i, below 2^32, into key.
func writeKey(key []byte, i int) []byte {
	var raw [keyLength / 2]byte
	binary.BigEndian.PutUint64(raw[:], mix(uint64(i)))
	binary.BigEndian.PutUint32(raw[8:], uint32(i))
	hex.Encode(key, raw[:])
	return key
}

func (t keyText) len() int { return len(t) / keyLength }

func (t keyText) key(i int) string { return string(t[i*keyLength:][:keyLength]) }

// list returns the keys as a slice of strings.
func (t keyText) list() []string {
	keys := make([]string, t.len())
	for i := range keys {
		keys[i] = t.key(i)
	}
	return keys
}

// mix spreads the bits of x over the whole word. It maps different numbers to different
// numbers (Steele, Lea and Flood, "Fast splittable pseudorandom number generators",
// 2014).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// orderLength is the number of accesses that are drawn before a race: longer than any
// cache of keys, short enough to be read without cache misses of its own.
const orderLength = 1 << 21

// randomSource returns the same numbers in every run, so that runs can be compared.
func randomSource() *rand.Rand { return rand.New(rand.NewPCG(1, 2)) }

// hotOrder accesses only the first key.
func hotOrder() []uint32 { return make([]uint32, orderLength) }

// uniformOrder accesses each of n keys equally often.
func uniformOrder(n int) []uint32 {
	r := randomSource()
	order := make([]uint32, orderLength)
	for i := range order {
		order[i] = r.Uint32N(uint32(n))
	}
	return order
}

// zipfOrder accesses few of n keys often, by Zipf's law with exponent s. The rank of a
// key is independent of its place in memory.
func zipfOrder(n int, s float64) []uint32 {
	r := randomSource()
	place := r.Perm(n)
	rank := rand.NewZipf(r, s, 1, uint64(n-1))
	order := make([]uint32, orderLength)
	for i := range order {
		order[i] = uint32(place[rank.Uint64()])
	}
	return order
}
