package httpapi

import "strings"

// textRoom is the size of a block of texts: one allocation for some hundred keys. A store
// that keeps one key retains at most this much memory, however long the body was.
const textRoom = 4 << 10

// texts converts parsed bytes to strings, which stay valid while the input buffer is
// reused.
type texts struct{ room strings.Builder }

// keep returns the text as a string. A block never grows, so earlier strings are never
// moved.
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
