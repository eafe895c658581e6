package decisionlog

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
	"io"
	"net/netip"
	"os"
	"sync"

	"github.com/stintdev/stint/cmd/stint/internal/siphash"
)

// Key is the key of the hashes of identities. Nodes with the same key write the same hashes,
// and sample the same callers. Make it with [ReadKey], [NewKey] or [KeyOf].
type Key struct {
	macs   *sync.Pool  // of hash.Hash; nil: the zero Key
	sample siphash.Key // of draws
}

// leastKey is the shortest text of a key file, in bytes.
const leastKey = 16

// maxKeyFile bounds the read of a key file, so that a wrong name costs little.
const maxKeyFile = 64 << 10

// ReadKey reads the key of a file: any text of at least 16 bytes, without the white space
// around it.
func ReadKey(path string) (Key, error) {
	info, err := os.Stat(path)
	if err != nil {
		return Key{}, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxKeyFile {
		return Key{}, fmt.Errorf("%s: is not a file of at most %d bytes (write a random text into a file: openssl rand -hex 32)", path, maxKeyFile)
	}
	text, err := os.ReadFile(path) //nolint:gosec // the operator names the file
	if err != nil {
		return Key{}, err
	}
	if text = bytes.TrimSpace(text); len(text) < leastKey {
		return Key{}, fmt.Errorf("%s: has %d bytes, and at least %d are needed (write a random text: openssl rand -hex 32)", path, len(text), leastKey)
	}
	return KeyOf(text), nil
}

// NewKey returns a random key, which only this process has.
func NewKey() Key {
	text := make([]byte, sha256.Size)
	_, _ = rand.Read(text) // it never fails
	return KeyOf(text)
}

// KeyOf returns the key with the given text.
func KeyOf(text []byte) Key {
	k := Key{macs: &sync.Pool{New: func() any { return hmac.New(sha256.New, text) }}}
	seed := k.sum("sample of callers")
	k.sample = siphash.KeyOf([16]byte(seed[:16]))
	return k
}

// IsZero reports whether the key is the zero Key, which has no hashes.
func (k *Key) IsZero() bool { return k.macs == nil }

// ID returns the hash of an identity: the first 64 bits of its HMAC-SHA256.
func (k *Key) ID(text string) uint64 {
	sum := k.sum(text)
	return binary.BigEndian.Uint64(sum[:8])
}

// Hash returns the hash of a text as lines of the decision log have it: 16 hexadecimal digits.
func (k *Key) Hash(text string) string { return fmt.Sprintf("%016x", k.ID(text)) }

func (k *Key) sum(text string) (sum [sha256.Size]byte) {
	mac := k.macs.Get().(hash.Hash) //nolint:forcetypeassert // the pool holds nothing else
	defer k.macs.Put(mac)
	mac.Reset()
	_, _ = io.WriteString(mac, text) // it never fails
	return [sha256.Size]byte(mac.Sum(sum[:0]))
}

// draw returns a number that is random without the key, and always the same for a caller. Every
// request of a sample by caller draws, and HMAC would take a twentieth of a check. So draw is
// SipHash, under a key that is derived from this one: a caller who does not know the key can
// choose no text that is in the sample.
func (k *Key) draw(text string) uint64 { return k.sample.Sum(text) }

// address returns an address in place of one of a caller: a unique local address (RFC 4193)
// whose /64 network is 56 bits of the hash. Rules count an IPv6 address by its /64 network,
// so a replay counts the callers apart.
func (k *Key) address(text string) netip.Addr {
	var a [16]byte
	binary.BigEndian.PutUint64(a[:8], k.ID(text))
	a[0], a[15] = 0xfd, 1
	return netip.AddrFrom16(a)
}
