package memcachedstore

import (
	"crypto/sha256"
	"encoding/base64"
	"hash/fnv"
	"math"
	"time"
)

// maxKey is the greatest length of a key in Memcached, in bytes.
const maxKey = 250

// The marks of keys that are hashed. No key of package cas begins with one.
const (
	markHashed = '!'
	markLock   = '@'
)

// appendKey appends the key in Memcached of an item: the prefix, a colon and the item's
// key. Memcached takes no spaces and no control characters, and no more than 250 bytes; such
// keys are hashed.
func appendKey(to []byte, prefix, key string) []byte {
	to = append(append(to, prefix...), ':')
	if len(prefix)+1+len(key) > maxKey || !clean(key) {
		return appendHash(to, markHashed, key)
	}
	return append(to, key...)
}

// appendLockKey appends the key in Memcached of an item's lock.
func appendLockKey(to []byte, prefix, key string) []byte {
	return appendHash(append(append(to, prefix...), ':'), markLock, key)
}

func appendHash(to []byte, mark byte, key string) []byte {
	sum := sha256.Sum256([]byte(key))
	return base64.RawURLEncoding.AppendEncode(append(to, mark), sum[:])
}

// clean reports whether a text has neither spaces nor control characters.
func clean(text string) bool {
	for i := range len(text) {
		if text[i] <= ' ' || text[i] == 0x7f {
			return false
		}
	}
	return true
}

// shardOf returns the index of the server that has a key, by rendezvous hashing: each
// server has a score for the key, and the highest wins. A server that leaves the list so
// moves its own keys alone. seeds are those of the servers' names.
func shardOf(seeds []uint64, key string) (best int) {
	if len(seeds) == 1 {
		return 0
	}
	hash, highest := hashOf(key), uint64(0)
	for i, seed := range seeds {
		if score := mix(hash ^ seed); score >= highest {
			best, highest = i, score
		}
	}
	return best
}

// seedOf returns the seed of a server's name.
func seedOf(name string) uint64 { return mix(hashOf(name)) }

// hashOf must stay the same in all versions: nodes of two versions share the servers.
func hashOf(text string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(text)) // never fails
	return h.Sum64()
}

// mix is the finalizer of SplitMix64 (Steele, Lea and Flood 2014): each bit of the result
// depends on all bits of x.
func mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}

// relative is the longest time that Memcached reads as a time from now. It reads a larger
// number as Unix seconds.
const relative = 30 * 24 * time.Hour

// expiryOf returns how an item is to be kept for a time from now, in the form that
// Memcached reads. now is the time of the server in Unix seconds. Memcached counts in
// whole seconds, so an item is kept for up to two seconds more. An expiry that does not fit
// into 31 bits, which old servers refuse, becomes 0: the item never expires.
func expiryOf(ttl time.Duration, now int64) int64 {
	if ttl <= relative-2*time.Second {
		return int64(ttl/time.Second) + 2
	}
	at := now + int64(ttl/time.Second) + 2
	if at > math.MaxInt32 {
		return 0
	}
	return at
}
