package resp

import (
	"errors"
	"strconv"
	"strings"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/cmd/stint/internal/decide"
)

const lineEnd = "\r\n"

// The first bytes of aggregates in RESP3; RESP2 writes both as arrays.
const (
	arrayType = '*'
	mapType   = '%'
)

func appendSimple(out []byte, text string) []byte {
	return append(append(append(out, '+'), text...), lineEnd...)
}

// appendError writes an error reply; text begins with its code, such as ERR. The text
// may contain client data, so control characters, which could end the line, become
// spaces.
func appendError(out []byte, text string) []byte {
	text = strings.Map(func(r rune) rune {
		if r < ' ' {
			return ' '
		}
		return r
	}, text)
	return append(append(append(out, '-'), text...), lineEnd...)
}

func appendInt(out []byte, n int64) []byte {
	out = append(out, ':')
	if 0 <= n && n <= 9 {
		out = append(out, byte('0'+n))
	} else {
		out = strconv.AppendInt(out, n, 10)
	}
	return append(out, lineEnd...)
}

func appendBulk[text string | []byte](out []byte, value text) []byte {
	out = appendLength(out, '$', len(value))
	return append(append(out, value...), lineEnd...)
}

func appendLength(out []byte, kind byte, n int) []byte {
	return append(strconv.AppendInt(append(out, kind), int64(n), 10), lineEnd...)
}

func appendArray(out []byte, n int) []byte { return appendLength(out, arrayType, n) }

// appendMap begins a map of n pairs.
func (c *conn) appendMap(out []byte, n int) []byte {
	if c.proto == 3 {
		return appendLength(out, mapType, n)
	}
	return appendLength(out, arrayType, 2*n)
}

func (c *conn) appendNull(out []byte) []byte {
	if c.proto == 3 {
		return append(out, "_\r\n"...)
	}
	return append(out, "$-1\r\n"...)
}

func (c *conn) appendNullArray(out []byte) []byte {
	if c.proto == 3 {
		return c.appendNull(out)
	}
	return append(out, "*-1\r\n"...)
}

// replyError is the text of an error reply; it begins with the error code.
type replyError string

func (e replyError) Error() string { return string(e) }

// errorText translates errors to RESP. No other function does.
func errorText(err error) string {
	if reply, ok := errors.AsType[replyError](err); ok {
		return string(reply)
	}
	if failed, ok := errors.AsType[*stint.Error](err); ok {
		return "ERR " + decide.Explain(failed)
	}
	return "ERR " + err.Error()
}
