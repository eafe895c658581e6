package replay

import "unicode/utf8"

const hexDigits = "0123456789abcdef"

// appendQuoted appends text as a JSON string. Invalid UTF-8 becomes U+FFFD, as
// in encoding/json. It escapes only what JSON requires.
func appendQuoted(out []byte, text string) []byte {
	out = append(out, '"')
	start := 0
	for i := 0; i < len(text); {
		c := text[i]
		if c >= ' ' && c != '"' && c != '\\' && c < utf8.RuneSelf {
			i++
			continue
		}
		size := 1
		if c >= utf8.RuneSelf {
			var r rune
			if r, size = utf8.DecodeRuneInString(text[i:]); r != utf8.RuneError || size > 1 {
				i += size
				continue
			}
		}
		out = append(out, text[start:i]...)
		out = appendEscape(out, c)
		i += size
		start = i
	}
	return append(append(out, text[start:]...), '"')
}

// appendEscape appends the escape of a byte that a JSON string cannot contain.
func appendEscape(out []byte, c byte) []byte {
	switch {
	case c >= utf8.RuneSelf:
		return append(out, `\ufffd`...)
	case c == '"' || c == '\\':
		return append(out, '\\', c)
	}
	return append(out, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
}
