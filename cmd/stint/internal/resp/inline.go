package resp

import (
	"bytes"
	"strings"
)

// inline parses a line of words, as people type them: PING hi. A word may be quoted:
// "with\x20escapes" or 'without'.
func (p *parser) inline(data []byte) (int, error) {
	end := bytes.IndexByte(data, '\n')
	if end < 0 {
		if len(data) >= p.most() {
			return 0, errTooInline
		}
		return 0, nil
	}
	return end + 1, p.words(bytes.TrimSuffix(data[:end], []byte{'\r'}))
}

func (p *parser) words(line []byte) error {
	for {
		line = bytes.TrimLeft(line, " \t\r\v\f\x00")
		if len(line) == 0 {
			return nil
		}
		if len(p.args) == maxArgs {
			return errManyArgs
		}
		word, n, ok := unquote(line)
		if !ok {
			return errUnbalanced
		}
		p.args = append(p.args, word)
		line = line[n:]
	}
}

// unquote returns the first word of line without its quotes, and how many bytes it
// had. It writes the word over line.
func unquote(line []byte) (word []byte, n int, ok bool) {
	word = line[:0]
	for n < len(line) && !space(line[n]) {
		c := line[n]
		n++
		if c != '"' && c != '\'' {
			word = append(word, c)
			continue
		}
		var m int
		word, m = quoted(word, line[n:], c)
		n += m
		if m == 0 || n < len(line) && !space(line[n]) {
			return nil, 0, false // the quote does not end, or no space follows it
		}
	}
	return word, n, true
}

// quoted appends the text up to the closing quote. It returns the number of bytes
// read, the quote included; 0 if the quote does not end.
func quoted(word, text []byte, quote byte) ([]byte, int) {
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case c == quote:
			return word, i + 1
		case c == '\\' && i+1 < len(text) && (quote == '"' || text[i+1] == '\''):
			var n int
			c, n = escaped(text[i+1:], quote)
			i += n
		}
		word = append(word, c)
	}
	return word, 0
}

// escaped returns the byte that an escape sequence means, and the length of the
// sequence after its backslash.
func escaped(text []byte, quote byte) (c byte, n int) {
	if quote == '"' && text[0] == 'x' && len(text) > 2 {
		high, low := strings.IndexByte(hex, text[1]|0x20), strings.IndexByte(hex, text[2]|0x20)
		if high >= 0 && low >= 0 {
			return byte(high<<4 | low), 3
		}
	}
	if i := strings.IndexByte("nrtba", text[0]); quote == '"' && i >= 0 {
		return "\n\r\t\b\a"[i], 1
	}
	return text[0], 1
}

const hex = "0123456789abcdef"

func space(c byte) bool {
	return c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f' || c == 0
}
