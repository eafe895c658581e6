package http1line

import (
	"net/textproto"
	"strings"
)

// MaxKeptFields is the greatest number of fields of a head whose memory is used again.
const MaxKeptFields = 32

// Fields reads the field lines of the heads that arrive on one connection. Most of them
// repeat the lines of the head before, in the same order. A line that equals the one in its
// place is not read again, and costs no memory. The bound: at most MaxKeptFields lines are
// kept for that, and only those of one head. The zero value is ready for use.
type Fields struct {
	lines []FieldLine // of the head before, and of this one as far as it is read
	read  int         // lines of this head
}

// FieldLine is a plain field line.
type FieldLine struct {
	Name, Value string // the name in canonical form

	text string
}

// Begin begins the next head. It forgets the lines that the head before did not have: heads
// that become shorter, each with one long line at its end, could otherwise fill every place
// with a line as long as a head.
func (f *Fields) Begin() {
	if f.read < len(f.lines) {
		clear(f.lines[f.read:])
		f.lines = f.lines[:f.read]
	}
	f.read = 0
}

// Many reports whether the head has more fields than are kept, as far as it has been read.
func (f *Fields) Many() bool { return f.read > MaxKeptFields }

// Read reads the next line of the head. It returns a copy of what it keeps, because the
// bytes behind the line may change. It returns false for a line that is not plain, and for
// one that accepts refuses. What accepts returns must not depend on other lines.
func (f *Fields) Read(text string, accepts func(name, value string) bool) (l FieldLine, ok bool) {
	if f.read < len(f.lines) && f.lines[f.read].text == text {
		f.read++
		return f.lines[f.read-1], true
	}
	l.text = strings.Clone(text)
	if l.Name, l.Value, ok = Field(l.text); !ok {
		return l, false
	}
	l.Name = textproto.CanonicalMIMEHeaderKey(l.Name)
	if !accepts(l.Name, l.Value) {
		return l, false
	}
	switch {
	case f.read < len(f.lines):
		f.lines[f.read] = l
	case f.read < MaxKeptFields:
		f.lines = append(f.lines, l)
	}
	f.read++
	return l, true
}
