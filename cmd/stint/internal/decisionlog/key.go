package decisionlog

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"net/netip"
	"os"
)

// Key is the key of the hashes of identities. Nodes with the same key write the same hashes,
// and sample the same callers.
type Key [sha256.Size]byte

// leastKey is the shortest text of a key file, in bytes.
const leastKey = 16

// maxKeyFile bounds the read of a key file, so that a wrong name costs little.
const maxKeyFile = 64 << 10

// ReadKey reads the key of a file: any text of at least 16 bytes.
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
		return Key{}, fmt.Errorf("%s: has %d bytes, at least %d are needed (write a random text: openssl rand -hex 32)", path, len(text), leastKey)
	}
	return sha256.Sum256(text), nil
}

// NewKey returns a random key, which only this process has.
func NewKey() (k Key) {
	_, _ = rand.Read(k[:]) // it never fails
	return k
}

// The uses of a key. A hash of one use says nothing about that of another.
const (
	forIdentity byte = iota
	forSample
)

// hash returns 64 bits of SHA-256 over the key, the use and the text. The key comes first
// and 192 bits are left out, so the hash can neither be made nor extended without the key.
func (k *Key) hash(use byte, text string) uint64 {
	var room [256]byte
	sum := sha256.Sum256(append(append(append(room[:0], k[:]...), use), text...))
	return binary.BigEndian.Uint64(sum[:8])
}

// address returns an address in place of one of a caller: a unique local address (RFC 4193)
// whose /64 network is 56 bits of the hash. Rules count an IPv6 address by its /64 network,
// so a replay counts the callers apart.
func (k *Key) address(text string) netip.Addr {
	var a [16]byte
	binary.BigEndian.PutUint64(a[:8], k.hash(forIdentity, text))
	a[0], a[15] = 0xfd, 1
	return netip.AddrFrom16(a)
}
