package resp

import (
	"strings"

	"github.com/stintdev/stint"
)

// keyRoom is the size of a block of keys in bytes: one allocation for some hundred
// keys, yet little memory for an idle connection.
const keyRoom = 4 << 10

// keys copies keys into strings. A store may keep a key, while the buffer that the key
// was read into is reused. Many keys share one block of memory, which saves an
// allocation for each.
type keys struct{ room strings.Builder }

// keep returns the key as a string. Earlier strings stay valid: a block never grows,
// and a full one is replaced.
func (k *keys) keep(key []byte) string {
	if len(key) > keyRoom {
		return string(key)
	}
	if k.room.Cap()-k.room.Len() < len(key) {
		k.room = strings.Builder{}
		k.room.Grow(keyRoom)
	}
	from := k.room.Len()
	k.room.Write(key)
	return k.room.String()[from:]
}

// checkKey is [stint.ValidateKey] with a fast path for printable ASCII.
func checkKey(key []byte) error {
	if len(key) > 0 && len(key) <= stint.MaxKey && plain(key) {
		return nil
	}
	return stint.ValidateKey(string(key))
}

// plain reports whether the key is entirely printable ASCII.
func plain(key []byte) bool {
	for _, c := range key {
		if c < ' ' || c > '~' {
			return false
		}
	}
	return true
}
