package http1server

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/stintdev/stint/cmd/stint/internal/http1line"
)

// facts are what the header of the handler says about the rest of the head.
type facts struct {
	hasDate, hasType, hasTrailers, saysClose bool
}

// writeFields writes the status line and the fields of the handler to head. What depends on
// the body follows in begin.
func (w *response) writeFields() {
	h := w.conn.header
	w.readLength(h)
	w.readFacts(h)
	w.head = w.appendFields(appendStatus(w.head[:0], w.status), w.keeps)
}

// readLength reads the Content-Length, which it removes if it is invalid.
func (w *response) readLength(h http.Header) {
	values := h["Content-Length"]
	if len(values) == 0 || values[0] == "" {
		return
	}
	n, err := strconv.ParseInt(values[0], 10, 64)
	if err != nil || n < 0 {
		w.conn.logf("http: invalid Content-Length of %q", values[0])
		delete(h, "Content-Length")
		return
	}
	w.length = n
}

func (w *response) readFacts(h http.Header) {
	_, w.hasDate = h["Date"]
	_, w.hasType = h["Content-Type"]
	w.hasType = w.hasType || first(h["Content-Encoding"]) != "" // an encoded body must not be sniffed
	connection := first(h["Connection"])
	w.last = connection == "close" || w.conn.server.draining.Load()
	w.saysClose = w.last && httpguts.HeaderValuesContainsToken([]string{connection}, "close")
	for _, value := range h["Trailer"] {
		w.announce(value)
		w.hasTrailers = true
	}
}

func first(values []string) string {
	if len(values) == 0 {
		return ""
	}
	return values[0]
}

// keeps reports whether a field of the handler is written. It notes trailers, which are not.
func (w *response) keeps(name string) bool {
	switch name {
	case "Content-Length":
		return w.length >= 0 && w.status != http.StatusNoContent && w.status != http.StatusNotModified
	case "Content-Type":
		return w.status != http.StatusNotModified
	case "Connection":
		return !w.last || w.saysClose
	case "Transfer-Encoding":
		return false
	}
	if isTrailer(name) {
		w.hasTrailers = true
		return false
	}
	return true
}

// isTrailer reports whether a handler sends a field as a trailer without announcing it.
func isTrailer(name string) bool { return strings.HasPrefix(name, http.TrailerPrefix) }

// appendStatus appends the status line: RFC 9112, section 4.
func appendStatus(b []byte, status int) []byte {
	b = strconv.AppendInt(append(b, "HTTP/1.1 "...), int64(status), 10)
	b = append(b, ' ')
	if text := http.StatusText(status); text != "" {
		return append(append(b, text...), "\r\n"...)
	}
	b = append(b, "status code "...)
	return append(strconv.AppendInt(b, int64(status), 10), "\r\n"...)
}

// appendFields appends the fields of the handler that keep accepts, sorted by their names.
// keep refuses trailers. Most responses on a connection have the fields of the one before,
// whose sorted names the connection has.
func (w *response) appendFields(b []byte, keep func(name string) bool) []byte {
	c := w.conn
	if len(c.names) == len(c.header) {
		if all, ok := w.appendNamed(b, c.names, keep); ok {
			return all
		}
	}
	var room [http1line.MaxKeptFields]string // enough for most responses, on the stack
	names := room[:0]
	for name := range c.header {
		if httpguts.ValidHeaderFieldName(name) || isTrailer(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	b, _ = w.appendNamed(b, names, keep)
	c.keepNames(names)
	return b
}

// maxKeptNames bounds the bytes of the names that an idle connection keeps.
const maxKeptNames = 1 << 10

// keepNames keeps a copy of the names for the next response. A name itself may be a part of a
// whole line of an upstream's response, which would be kept with it.
func (c *conn) keepNames(names []string) {
	c.names = nil
	size := 0
	for _, name := range names {
		size += len(name)
	}
	if len(names) > http1line.MaxKeptFields || size > maxKeptNames {
		return
	}
	var all strings.Builder
	all.Grow(size)
	c.names = make([]string, len(names))
	for i, name := range names {
		all.WriteString(name)
		c.names[i] = all.String()[all.Len()-len(name):]
	}
}

// appendNamed appends the fields with the given names, unless the header lacks one of them.
func (w *response) appendNamed(b []byte, names []string, keep func(name string) bool) (_ []byte, ok bool) {
	for _, name := range names {
		values, present := w.conn.header[name]
		switch {
		case !present:
			return nil, false
		case !keep(name):
			continue
		}
		if w.spelling != nil {
			name = w.spelling(name)
		}
		for _, value := range values {
			b = appendField(b, name, value)
		}
	}
	return b, true
}

// lineEnds replaces the ends of lines, by which a value would become several fields.
var lineEnds = strings.NewReplacer("\n", " ", "\r", " ")

func appendField(b []byte, name, value string) []byte {
	if strings.IndexByte(value, '\n') >= 0 || strings.IndexByte(value, '\r') >= 0 {
		value = lineEnds.Replace(value)
	}
	b = append(append(b, name...), ": "...)
	return append(append(b, http1line.Trim(value)...), "\r\n"...)
}
