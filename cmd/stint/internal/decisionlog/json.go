package decisionlog

import (
	"strconv"
	"unicode/utf8"
)

func appendInt(b []byte, n int64) []byte { return strconv.AppendInt(b, n, 10) }

// appendHash appends the hash of a text as 16 hexadecimal digits.
func appendHash(b []byte, k *Key, text string) []byte {
	h := strconv.FormatUint(k.ID(text), 16)
	b = append(append(b, '"'), "0000000000000000"[len(h):]...)
	return append(append(b, h...), '"')
}

const hexDigits = "0123456789abcdef"

// appendText appends a text as JSON, at most maxText bytes of it. Invalid UTF-8 becomes
// U+FFFD.
func appendText(b []byte, text string) []byte {
	if len(text) > maxText {
		text = text[:maxText]
	}
	b = append(b, '"')
	for i := 0; i < len(text); {
		c, size := utf8.DecodeRuneInString(text[i:])
		switch {
		case c == utf8.RuneError && size <= 1:
			b = append(b, `\ufffd`...)
		case c == '"' || c == '\\':
			b = append(b, '\\', byte(c))
		case c < ' ' || c == 0x7f:
			b = append(b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		default:
			b = append(b, text[i:i+size]...)
		}
		i += size
	}
	return append(b, '"')
}

// list is a member whose value is a list. A list without values is no member.
type list struct {
	member string
	n      int
}

// next appends what stands before the next value.
func (l *list) next(b []byte) []byte {
	if l.n++; l.n > 1 {
		return append(b, ',')
	}
	return append(append(append(b, `,"`...), l.member...), `":[`...)
}

// end appends what stands behind the last value.
func (l *list) end(b []byte) []byte {
	if l.n == 0 {
		return b
	}
	return append(b, ']')
}
