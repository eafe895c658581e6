package resp

import (
	"bytes"
	"errors"
	"strconv"
	"strings"
)

// The bounds of one command.
const (
	maxCommand = 64 << 10 // bytes, as sent
	maxArgs    = 1024
	maxHeader  = 32 // bytes of a line with a length

	// Before AUTH: enough for a long password, and little memory for an unknown
	// client.
	maxStranger     = 4 << 10
	maxStrangerArgs = 16
)

// Protocol errors. The connection ends after one.
var (
	errTooLong    = errors.New("too big request")
	errTooInline  = errors.New("too big inline request")
	errManyArgs   = errors.New("invalid multibulk length")
	errBulk       = errors.New("invalid bulk length")
	errNoLineEnd  = errors.New("expected a line to end with CRLF")
	errUnbalanced = errors.New("unbalanced quotes in request")
)

// parser parses commands: arrays of bulk strings, or inline commands.
type parser struct {
	stranger bool     // the client has not authenticated
	args     [][]byte // of the last command; they point into its data
}

// next parses the command at the start of data and returns its length, 0 if it is
// incomplete. An empty command has no args. After an error the rest of data cannot be
// parsed.
//
// An inline command with quotes is rewritten in place.
func (p *parser) next(data []byte) (n int, err error) {
	p.args = p.args[:0]
	switch {
	case len(data) == 0:
		return 0, nil
	case data[0] == '*':
		n, err = p.array(data)
	default:
		n, err = p.inline(data)
	}
	if n == 0 && err == nil && len(data) >= p.most() {
		err = errTooLong
	}
	return n, err
}

func (p *parser) most() int {
	if p.stranger {
		return maxStranger
	}
	return maxCommand
}

// array parses *2\r\n$4\r\nPING\r\n$2\r\nhi\r\n.
func (p *parser) array(data []byte) (int, error) {
	count, at, err := header(data, errManyArgs)
	if at == 0 || err != nil {
		return 0, err
	}
	if count > maxArgs || p.stranger && count > maxStrangerArgs {
		return 0, errManyArgs
	}
	for ; count > 0; count-- {
		n, err := p.bulk(data[at:])
		if n == 0 || err != nil {
			return 0, err
		}
		at += n
	}
	return at, nil
}

// bulk parses one argument, $4\r\nPING\r\n.
func (p *parser) bulk(data []byte) (int, error) {
	if len(data) == 0 {
		return 0, nil
	}
	if data[0] != '$' {
		return 0, errors.New("expected '$', got " + strconv.QuoteRune(rune(data[0])))
	}
	length, at, err := header(data, errBulk)
	if at == 0 || err != nil {
		return 0, err
	}
	if length < 0 || length > p.most() {
		return 0, errBulk
	}
	end := at + length
	if len(data) < end+2 {
		return 0, nil
	}
	if data[end] != '\r' || data[end+1] != '\n' {
		return 0, errNoLineEnd
	}
	p.args = append(p.args, data[at:end])
	return end + 2, nil
}

// header parses the number between the first byte and the line end. n is the length of
// the line, 0 if it is incomplete.
func header(data []byte, wrong error) (number, n int, err error) {
	if number, n = shortHeader(data); n > 0 {
		return number, n, nil
	}
	end := bytes.IndexByte(data[:min(len(data), maxHeader)], '\n')
	switch {
	case end < 0 && len(data) >= maxHeader:
		return 0, 0, wrong
	case end < 0:
		return 0, 0, nil
	case data[end-1] != '\r':
		return 0, 0, errNoLineEnd
	}
	value, ok := parseInt(data[1 : end-1])
	if !ok || value > maxCommand {
		return 0, 0, wrong
	}
	return int(max(value, -1)), end + 1, nil
}

// shortHeader is a fast path of header for one or two digits, which nearly all headers
// have. n is 0 for any other.
func shortHeader(data []byte) (number, n int) {
	if len(data) < 4 || data[1]-'0' > 9 {
		return 0, 0
	}
	number = int(data[1] - '0')
	if data[2] == '\r' && data[3] == '\n' {
		return number, 4
	}
	if len(data) > 4 && data[2]-'0' <= 9 && data[3] == '\r' && data[4] == '\n' {
		return number*10 + int(data[2]-'0'), 5
	}
	return 0, 0
}

// parseInt parses a decimal int64 with or without a sign.
func parseInt(text []byte) (int64, bool) {
	digits := text
	negative := len(text) > 0 && text[0] == '-'
	if negative || len(text) > 0 && text[0] == '+' {
		digits = text[1:]
	}
	if len(digits) == 0 || len(digits) > 18 {
		n, err := strconv.ParseInt(string(text), 10, 64) // rare: leading zeros, or near the bounds
		return n, err == nil
	}
	var n int64
	for _, c := range digits {
		if c-'0' > 9 {
			return 0, false
		}
		n = n*10 + int64(c-'0')
	}
	if negative {
		n = -n
	}
	return n, true
}

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
