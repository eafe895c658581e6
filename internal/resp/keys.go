package resp

import (
	"strings"

	"github.com/stintdev/stint"
)

// keyRoom is how many bytes of keys are made room for at once: one allocation
// for some hundred keys, and little to hold for an idle connection.
const keyRoom = 4 << 10

// keys makes strings of keys. They stay as they are for as long as a store
// may look at them, while the buffer that they were read into is used again.
type keys struct{ room strings.Builder }

// keep returns the key as a string. What was built before is never moved, for
// the room does not grow.
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

// checkKey says what is wrong with a key: what every surface says.
func checkKey(key []byte) error {
	if len(key) > 0 && len(key) <= stint.MaxKey && plain(key) {
		return nil
	}
	return stint.ValidateKey(string(key))
}

// plain reports whether all of the key is printable ASCII.
func plain(key []byte) bool {
	for _, c := range key {
		if c < ' ' || c > '~' {
			return false
		}
	}
	return true
}
