package stint

import (
	"fmt"
	"math/bits"
	"strings"
	"testing"

	"github.com/stintdev/stint/internal/table"
)

// testSecrets are fixed, so that a failure repeats.
var testSecrets = secrets{0x9e3779b97f4a7c15, 0xbf58476d1ce4e5b9, 0x94d049bb133111eb, 0x2545f4914f6cdd1d}

// likeKeys returns keys that are as similar as callers can make them.
func likeKeys() []string {
	var keys []string
	for n := range 70 {
		zeros := strings.Repeat("\x00", n)
		keys = append(keys, zeros, strings.Repeat("a", n)+"b")
		for i := range n {
			for bit := range 8 {
				keys = append(keys, zeros[:i]+string([]byte{1 << bit})+zeros[i+1:])
			}
		}
	}
	alike := 300_000
	if testing.Short() {
		alike = 50_000
	}
	for i := range alike {
		keys = append(keys, fmt.Sprintf("user:%d", i), fmt.Sprintf("%024x", i), fmt.Sprintf("10.%d.%d.%d/tenant-%d", i>>16, i>>8&255, i&255, i%7))
	}
	return keys
}

// Among 10^6 keys, two share a half of their identity by chance once in 4·10^7
// runs, so a shared half is a fault of the hash.
func TestAlikeKeysHaveIdentitiesApart(t *testing.T) {
	hashes, rests := map[uint64]string{}, map[uint64]string{}
	for _, key := range likeKeys() {
		id := testSecrets.identify(key, &[2]uint64{})
		if other, ok := hashes[id.Hash]; ok && other != key {
			t.Fatalf("%q and %q share half of their identity", key, other)
		}
		if other, ok := rests[id.Rest]; ok && other != key {
			t.Fatalf("%q and %q share the other half of their identity", key, other)
		}
		hashes[id.Hash], rests[id.Rest] = key, key
	}
}

// differing counts the bits in which two identities differ.
func differing(a, b table.ID) int {
	return bits.OnesCount64(a.Hash^b.Hash) + bits.OnesCount64(a.Rest^b.Rest)
}

// A change of any bit of a key, of its length or of a secret flips half of the
// identity's bits. Over this many pairs, the mean of a fair coin is outside 64 ±
// 0.6 only once in a billion runs.
func TestEveryBitOfAKeyTurnsHalfOfItsIdentity(t *testing.T) {
	sum, pairs := 0, 0
	for n := 1; n < 70; n++ {
		key := []byte(strings.Repeat("k3y:", 18)[:n])
		id := testSecrets.identify(string(key), &[2]uint64{})
		for i := range n * 8 {
			key[i/8] ^= 1 << (i % 8)
			d := differing(id, testSecrets.identify(string(key), &[2]uint64{}))
			if d < 24 {
				t.Errorf("bit %d of %d bytes turns %d of 128 bits", i, n, d)
			}
			sum, pairs = sum+d, pairs+1
			key[i/8] ^= 1 << (i % 8)
		}
	}
	if mean := float64(sum) / float64(pairs); mean < 63.4 || mean > 64.6 {
		t.Errorf("a bit turns %.2f of 128 bits in the mean; want 64", mean)
	}
}

func TestIdentityNeedsTheSecretsAndTheScope(t *testing.T) {
	const key = "user:42 of a tenant"
	id := testSecrets.identify(key, &[2]uint64{})
	for i := range testSecrets {
		other := testSecrets
		other[i] ^= 1
		if d := differing(id, other.identify(key, &[2]uint64{})); d < 32 {
			t.Errorf("another secret %d turns %d of 128 bits", i, d)
		}
	}
	if other := testSecrets.identify(key, &[2]uint64{1, 0}); other == id {
		t.Error("another scope has the same identity")
	}
	if one, other := newSecrets(), newSecrets(); one == other {
		t.Error("two stores have the same secrets")
	}
}

func BenchmarkIdentify(b *testing.B) {
	for _, n := range []int{8, 24, 64} {
		key := strings.Repeat("0123456789abcdef", 4)[:n]
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				testSecrets.identify(key, &[2]uint64{1, 2})
			}
		})
	}
}
