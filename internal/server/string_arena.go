package server

import "strings"

// textRoom is how many bytes of texts are made room for at once: one
// allocation for some hundred keys. A store that keeps one of them keeps no
// more than this, however long the body was that it came in.
const textRoom = 4 << 10

// texts makes strings of what is read. They stay as they are for as long as
// anyone holds them, while the buffer that they were read into is used again.
type texts struct{ room strings.Builder }

// keep returns the text as a string. What was built before is never moved, for
// the room does not grow.
func (t *texts) keep(text []byte) string {
	if len(text) > textRoom/4 {
		return string(text)
	}
	if t.room.Cap()-t.room.Len() < len(text) {
		t.room = strings.Builder{}
		t.room.Grow(textRoom)
	}
	from := t.room.Len()
	t.room.Write(text)
	return t.room.String()[from:]
}
