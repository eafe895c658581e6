package http1server

import (
	"bufio"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/stintdev/stint/cmd/stint/internal/http1line"
)

// response is the response to a plain request, an [http.ResponseWriter]. What is written
// goes through body, whose size decides whether a small response gets a length or becomes
// chunked, and then through out: both have the sizes of net/http.
type response struct {
	*buffers // nil after the end of the request

	conn    *conn
	request *http.Request
	context requestContext
	err     error // of the connection

	facts          // of the head
	status   int   // 0 before WriteHeader
	length   int64 // by Content-Length; -1: unknown
	written  int64 // by the handler
	trailers []string

	begun    bool // the head is in out
	done     bool // the handler has returned
	chunked  bool
	last     bool // of the connection
	deadline bool // the handler has set a deadline of writes

	spelling func(name string) string // nil: names are written as they are in the header
}

// buffers are what a response needs while it is written.
type buffers struct {
	head []byte        // what WriteHeader made of the header
	body *bufio.Writer // of the handler, to bodyWriter
	out  *bufio.Writer // of bodyWriter, to the connection
}

const (
	bodyBuffer = 2 << 10
	outBuffer  = 4 << 10
)

// pool keeps buffers, because idle connections need none.
var pool = sync.Pool{New: func() any {
	return &buffers{body: bufio.NewWriterSize(nil, bodyBuffer), out: bufio.NewWriterSize(nil, outBuffer)}
}}

// newResponse returns the response to the request whose head was read last.
func newResponse(c *conn) *response {
	b, _ := pool.Get().(*buffers)
	w := &response{buffers: b, conn: c, context: requestContext{Context: c.ctx}, length: -1}
	c.request = *c.template.WithContext(&w.context) // which needs no memory, as nothing keeps the copy
	w.request = &c.request
	c.head.fill(w.request)
	b.body.Reset((*bodyWriter)(w))
	b.out.Reset((*connWriter)(w))
	return w
}

// release ends the response. What is not written is dropped.
func (w *response) release() {
	c, b := w.conn, w.buffers
	w.context.end()
	if w.deadline {
		_ = c.raw.SetWriteDeadline(time.Time{}) // fails on a closed connection, as the next write does
	}
	if len(c.header) > http1line.MaxKeptFields {
		c.header = http.Header{}
	}
	clear(c.header)
	c.head.release()
	c.request = http.Request{}
	w.buffers = nil
	b.body.Reset(nil)
	b.out.Reset(nil)
	if cap(b.head) > outBuffer {
		b.head = nil
	}
	pool.Put(b)
}

// errEnded is the error of a handler that writes after it returned.
var errEnded = errors.New("the handler of the request has returned")

// Header implements [http.ResponseWriter].
func (w *response) Header() http.Header { return w.conn.header }

// SpellFields sets how the names of fields are written. They are sorted before.
func (w *response) SpellFields(spelling func(name string) string) { w.spelling = spelling }

// WriteHeader implements [http.ResponseWriter]. Later changes of the header concern only
// trailers.
func (w *response) WriteHeader(status int) {
	switch {
	case status < 100 || status > 999:
		panic(fmt.Sprintf("invalid WriteHeader code %v", status))
	case w.status != 0 || w.buffers == nil:
		w.conn.logf("http: superfluous response.WriteHeader call with status %d", status)
	case status < http.StatusOK && status != http.StatusSwitchingProtocols:
		w.inform(status)
	default:
		w.status = status
		w.writeFields()
	}
}

// inform writes an informational response.
func (w *response) inform(status int) {
	head := w.appendFields(appendStatus(nil, status), func(name string) bool {
		return name != "Content-Length" && name != "Transfer-Encoding" && !isTrailer(name)
	})
	_, _ = w.out.Write(append(head, "\r\n"...)) // w.err keeps the error
	_ = w.out.Flush()
}

// Write implements [http.ResponseWriter].
func (w *response) Write(p []byte) (int, error) {
	if err := w.writes(len(p)); err != nil || len(p) == 0 {
		return 0, err
	}
	return w.body.Write(p)
}

// WriteString implements [io.StringWriter].
func (w *response) WriteString(s string) (int, error) {
	if err := w.writes(len(s)); err != nil || s == "" {
		return 0, err
	}
	return w.body.WriteString(s)
}

// writes counts what the handler writes, and refuses what the status or the length forbids.
func (w *response) writes(n int) error {
	if w.buffers == nil {
		return errEnded
	}
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	if n == 0 {
		return nil
	}
	if !bodyAllowed(w.status) {
		return http.ErrBodyNotAllowed
	}
	if w.written += int64(n); w.length >= 0 && w.written > w.length {
		return http.ErrContentLength
	}
	return nil
}

// Flush implements [http.Flusher].
func (w *response) Flush() { _ = w.FlushError() }

// FlushError is called by [http.ResponseController].
func (w *response) FlushError() error {
	if w.buffers == nil {
		return errEnded
	}
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	err := w.body.Flush()
	w.begin(nil)
	return errors.Join(err, w.out.Flush())
}

// SetReadDeadline is called by [http.ResponseController].
func (w *response) SetReadDeadline(t time.Time) error { return w.conn.raw.SetReadDeadline(t) }

// SetWriteDeadline is called by [http.ResponseController].
func (w *response) SetWriteDeadline(t time.Time) error {
	w.deadline = true
	return w.conn.raw.SetWriteDeadline(t)
}

// EnableFullDuplex is called by [http.ResponseController]. There is no body to read.
func (w *response) EnableFullDuplex() error { return nil }

// finish completes the response when the handler has returned. It reports whether the
// connection may have another request.
func (w *response) finish() (again bool) {
	w.done = true
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	_ = w.body.Flush() // w.err keeps the error
	w.begin(nil)
	if w.chunked {
		w.writeTrailers()
	}
	_ = w.out.Flush()
	short := w.length >= 0 && w.written != w.length && w.hasBody()
	return !w.last && !short && w.err == nil
}

// hasBody reports whether the body is written.
func (w *response) hasBody() bool {
	return w.request.Method != http.MethodHead && bodyAllowed(w.status)
}

// bodyAllowed reports whether a status allows a body: RFC 9110, section 6.4.1.
func bodyAllowed(status int) bool {
	return status >= http.StatusOK && status != http.StatusNoContent && status != http.StatusNotModified
}

// begin completes the head and writes it, once. The given bytes are the first of the body.
func (w *response) begin(first []byte) {
	if w.begun {
		return
	}
	w.begun = true
	h := w.head
	if !w.hasDate {
		h = appendField(h, "Date", date(time.Now()))
	}
	empty := w.request.Method == http.MethodHead && len(first) == 0 // a handler may leave the body of a HEAD out
	if w.done && bodyAllowed(w.status) && w.length < 0 && len(w.trailers) == 0 && !w.hasTrailers && !empty {
		w.length = int64(len(first))
		h = append(h, "Content-Length: "...)
		h = append(strconv.AppendInt(h, w.length, 10), "\r\n"...)
	}
	if bodyAllowed(w.status) && !w.hasType && len(first) > 0 {
		h = appendField(h, "Content-Type", http.DetectContentType(first))
	}
	if w.last && !w.saysClose {
		h = appendField(h, "Connection", "close")
	}
	if w.chunked = w.length < 0 && w.hasBody(); w.chunked {
		h = appendField(h, "Transfer-Encoding", "chunked")
	}
	h = append(h, "\r\n"...)
	w.head = h
	_, _ = w.out.Write(h) // w.err keeps the error
}

// bodyWriter is a response as the writer behind the buffer of the body.
type bodyWriter response

// Write implements [io.Writer].
func (b *bodyWriter) Write(p []byte) (int, error) {
	w := (*response)(b)
	w.begin(p)
	switch {
	case !w.hasBody():
		return len(p), nil
	case !w.chunked:
		return w.out.Write(p)
	}
	var size [20]byte
	_, _ = w.out.Write(append(strconv.AppendInt(size[:0], int64(len(p)), 16), "\r\n"...)) // the last write has the same error
	_, _ = w.out.Write(p)
	if _, err := w.out.WriteString("\r\n"); err != nil {
		return 0, err
	}
	return len(p), nil
}

// connWriter is a response as the writer behind the buffer of the connection.
type connWriter response

// Write implements [io.Writer].
func (w *connWriter) Write(p []byte) (int, error) {
	w.conn.server.writes.Await()
	n, err := w.conn.raw.Write(p)
	if err != nil && w.err == nil {
		w.err = err
	}
	return n, err
}

// writeTrailers ends a chunked body.
func (w *response) writeTrailers() {
	var trailers http.Header
	for name, values := range w.conn.header {
		if key, ok := strings.CutPrefix(name, http.TrailerPrefix); ok {
			if trailers == nil {
				trailers = http.Header{}
			}
			trailers[key] = values
		}
	}
	for _, name := range w.trailers {
		for _, v := range w.conn.header[name] {
			if trailers == nil {
				trailers = http.Header{}
			}
			trailers.Add(name, v)
		}
	}
	_, _ = w.out.WriteString("0\r\n") // w.err keeps the error
	_ = trailers.Write(w.out)
	_, _ = w.out.WriteString("\r\n")
}

// announce notes the trailers that a Trailer field names.
func (w *response) announce(value string) {
	for name := range strings.SplitSeq(value, ",") {
		if name = http.CanonicalHeaderKey(strings.Trim(name, " \t")); httpguts.ValidTrailerHeader(name) {
			w.trailers = append(w.trailers, name)
		}
	}
}

// lastDate is the date of the last second that was asked for.
var lastDate atomic.Pointer[secondDate]

type secondDate struct {
	second int64
	text   string
}

// date formats the time as a Date field: RFC 9110, section 6.6.1.
func date(now time.Time) string {
	if d := lastDate.Load(); d != nil && d.second == now.Unix() {
		return d.text
	}
	d := &secondDate{now.Unix(), now.UTC().Format(http.TimeFormat)}
	lastDate.Store(d)
	return d.text
}
