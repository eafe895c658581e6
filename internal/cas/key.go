package cas

import (
	"crypto/sha256"

	"github.com/stintdev/stint"
)

// The first byte of an item's key says what the item is. Limits of rules and of programs
// and limits that callers bring have items of their own, so that no caller can fill or
// contend for an item that rules need.
const (
	markOwn          = '=' // the states of limits of rules and of programs
	markCaller       = '~' // the states of limits that callers bring
	markOwnHashed    = '%' // as above, of a key that is too long
	markCallerHashed = '^'
	markNodes        = '#' // the announcements of nodes
	markProbe        = '?' // what a probe writes
)

// Marks has the first bytes of all keys that a [Backend] gets. A backend that puts a prefix
// before them can tell its keys from those of a longer prefix.
var Marks = [...]byte{markOwn, markCaller, markOwnHashed, markCallerHashed, markNodes, markProbe}

// keyOf returns the key of the item that has the state of a claim.
func keyOf(c *stint.Claim) string {
	mark, hashed := byte(markOwn), byte(markOwnHashed)
	if c.Limit.FromCaller() {
		mark, hashed = markCaller, markCallerHashed
	}
	if len(c.Key) < MaxKey {
		return string(mark) + c.Key
	}
	sum := sha256.Sum256([]byte(c.Key))
	return string(hashed) + string(sum[:])
}

// fromCaller reports whether an item has the states of limits that callers bring.
func fromCaller(key string) bool { return key[0] == markCaller || key[0] == markCallerHashed }
