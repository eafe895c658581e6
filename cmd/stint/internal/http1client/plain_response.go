package http1client

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"unsafe"

	"github.com/stintdev/stint/cmd/stint/internal/http1line"
)

// plainResponse reads a response whose head has arrived and has one meaning, in less time
// than http.ReadResponse, which reads all others. It returns nil, and has read nothing, for
// those. A plain response is one to a GET by HTTP/1.1 with
//
//   - a final status that allows a body, and plain lines ([http1line.Field]);
//   - exactly one Content-Length, in digits (RFC 9112, section 6.2), and no
//     Transfer-Encoding (section 6.1);
//   - no Connection but "keep-alive" (section 9.3);
//   - nothing that makes the standard library change the header.
func plainResponse(from *bufio.Reader, known *heads, r *http.Request) *received {
	if r.Method != http.MethodGet {
		return nil
	}
	const end = "\r\n\r\n"
	arrived, _ := from.Peek(from.Buffered()) // cannot fail
	size := bytes.Index(arrived, []byte(end))
	if size < 0 {
		return nil
	}
	size += len(end)
	line, fields, found := http1line.Next(unsafe.String(&arrived[0], size)) // heads has copies
	if found != http1line.Plain {
		return nil
	}
	res := roomOf(r).take()
	if !res.setStatus(known, line) || !res.parseFields(known, fields) || res.ContentLength < 0 {
		return nil
	}
	_, _ = from.Discard(size) // cannot fail: all of it is buffered
	res.Request, res.Body = r, http.NoBody
	if res.ContentLength > 0 {
		res.sized = sizedBody{from, res.ContentLength}
		res.Body = &res.sized
	}
	return res
}

// received is a response with what its body needs, in one piece.
type received struct {
	http.Response

	body  body
	sized sizedBody
	many  bool // more fields than http1line.MaxKeptFields have been in the header
}

// heads has what the responses on a connection repeat.
type heads struct {
	line   string // the status line of the response before
	code   int
	fields http1line.Fields
}

// setStatus reads the status line, unless it equals that of the response before.
func (res *received) setStatus(known *heads, line string) bool {
	const version = "HTTP/1.1 "
	if known.line == "" || line != known.line {
		code, ok := parseStatus(strings.TrimPrefix(line, version))
		if !ok || !strings.HasPrefix(line, version) {
			return false
		}
		known.line, known.code = strings.Clone(line), code
	}
	res.Response = http.Response{Header: res.Header, Status: known.line[len(version):], StatusCode: known.code, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, ContentLength: -1}
	return true
}

// parseStatus reads a status with a reason: RFC 9112, section 4. It returns false for any
// other, and for one that plain responses do not have.
func parseStatus(status string) (code int, ok bool) {
	if len(status) < 5 || status[3] != ' ' {
		return 0, false
	}
	for i := range len(status) {
		if status[i] < ' ' || status[i] > '~' {
			return 0, false
		}
	}
	n, err := strconv.ParseUint(status[:3], 10, 16)
	return int(n), err == nil && n >= http.StatusOK && n != http.StatusNoContent && n != http.StatusNotModified
}

// parseFields reads all fields into the header of a response. It reports whether they are
// plain.
func (res *received) parseFields(known *heads, text string) bool {
	known.fields.Begin()
	values := make([]string, 0, 8) // of most headers
	for {
		line, rest, found := http1line.Next(text)
		if found != http1line.Plain || line == "" {
			return found == http1line.Plain
		}
		f, ok := known.fields.Read(line, isPlainField)
		res.many = known.fields.Many()
		if !ok || !res.readField(f.Name, f.Value) {
			return false
		}
		if values = append(values, f.Value); len(res.Header[f.Name]) > 0 {
			res.Header[f.Name] = append(res.Header[f.Name], f.Value)
		} else {
			n := len(values)
			res.Header[f.Name] = values[n-1 : n : n]
		}
		text = rest
	}
}

// isPlainField reports whether a field may be in a plain response.
func isPlainField(name, value string) bool {
	switch name {
	case "Connection":
		return strings.EqualFold(value, "keep-alive")
	case "Transfer-Encoding", "Trailer", "Pragma":
		return false
	}
	return true
}

// readField reads the length. It returns false for a second length or Connection, with which
// the response is not plain.
func (res *received) readField(name, value string) bool {
	switch name {
	case "Content-Length":
		n, err := strconv.ParseUint(value, 10, 63)
		known := res.ContentLength >= 0
		res.ContentLength = int64(n)
		return err == nil && !known
	case "Connection":
		return len(res.Header[name]) == 0
	}
	return true
}

// sizedBody is a body with a length. It returns io.EOF with its last bytes.
type sizedBody struct {
	from *bufio.Reader
	left int64
}

// Read implements [io.Reader].
func (b *sizedBody) Read(p []byte) (int, error) {
	if b.left == 0 {
		return 0, io.EOF
	}
	n, err := b.from.Read(p[:min(int64(len(p)), b.left)])
	switch b.left -= int64(n); {
	case b.left == 0:
		err = io.EOF
	case errors.Is(err, io.EOF):
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// Close implements [io.Closer]. The body around it closes the connection.
func (b *sizedBody) Close() error { return nil }
