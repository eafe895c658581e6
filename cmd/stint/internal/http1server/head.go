package http1server

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/stintdev/stint/cmd/stint/internal/http1line"
)

// head is the head of a plain request. A connection reads all its heads into the same one:
// most clients repeat the target, the host and the fields of the request before, which are
// then not read again (see [http1line.Fields]). What is kept for that is a head at most.
type head struct {
	method, target, host string
	url                  url.URL
	header               http.Header
	size                 int // bytes up to and including the empty line

	parsed *url.URL // of target
	fields http1line.Fields
	values []string // of header, in pieces; never used again, because http.Transport may read them late
}

// fill sets the fields of a request.
func (h *head) fill(r *http.Request) {
	r.Method, r.RequestURI, r.URL, r.Host, r.Header = h.method, h.target, &h.url, h.host, h.header
}

// clear forgets the request, but not the lines.
func (h *head) clear() {
	if h.header == nil {
		h.header = http.Header{}
	}
	clear(h.header)
	h.host, h.values = "", nil
	h.fields.Begin()
}

// release ends the use of the request. An idle connection keeps no large header.
func (h *head) release() {
	if h.fields.Many() {
		h.header, h.values = nil, nil
	}
}

// parse reads the head of a request at the beginning of what has arrived. The head is
// plain only if
//
//   - each of its lines ends with CR LF, and neither is anywhere else (RFC 9112, section
//     2.2, lets recipients accept more);
//   - the request line is "METHOD target HTTP/1.1" with single spaces (section 3), the
//     method is GET, HEAD or OPTIONS, and the target is visible ASCII in origin-form
//     (section 3.2.1) that net/url parses;
//   - each field line is "name: value" with a token as its name and no space before the
//     colon (section 5.1), is not folded (section 5.2), and has visible ASCII, spaces and
//     tabs as its value;
//   - there is exactly one Host, of letters, digits and the punctuation of names and
//     addresses (section 3.2);
//   - it has no field about a body, the connection or the protocol, except for
//     "Connection: keep-alive" (see isSpecial). So there is no body (section 6.3), and the
//     connection stays open (section 9.3).
//
// All that the head keeps is a copy, because the bytes behind the text change with the next
// request. A handler may keep a value without keeping the others.
func (h *head) parse(arrived string) http1line.Verdict {
	line, rest, found := http1line.Next(arrived)
	if found != http1line.Plain || !h.parseRequestLine(line) {
		if found == http1line.Incomplete && mayBegin(arrived) {
			return http1line.Incomplete
		}
		return http1line.Other
	}
	h.clear()
	for {
		line, rest, found = http1line.Next(rest)
		switch {
		case found != http1line.Plain:
			return found
		case len(line) > 0 && !h.parseField(line):
			return http1line.Other
		case len(line) == 0:
			h.size = len(arrived) - len(rest)
			return h.complete()
		}
	}
}

var methods = [...]string{http.MethodGet, http.MethodHead, http.MethodOptions}

// mayBegin reports whether the text is the beginning of a request line that may be plain.
// Clients that speak another protocol get their answer at once.
func mayBegin(text string) bool {
	for _, m := range methods {
		if n := min(len(m), len(text)); text[:n] == m[:n] {
			return true
		}
	}
	return false
}

func (h *head) parseRequestLine(line string) bool {
	method, line, _ := strings.Cut(line, " ")
	target, ok := strings.CutSuffix(line, " HTTP/1.1")
	known := slices.Index(methods[:], method)
	if !ok || known < 0 || target == "" || target[0] != '/' {
		return false
	}
	h.method = methods[known]
	if h.parsed == nil || target != h.target {
		if !h.parseTarget(target) {
			return false
		}
	}
	h.url = *h.parsed
	return true
}

func (h *head) parseTarget(target string) bool {
	for i := range len(target) {
		if c := target[i]; c <= ' ' || c > '~' {
			return false
		}
	}
	h.target = strings.Clone(target)
	var err error
	h.parsed, err = url.ParseRequestURI(h.target)
	return err == nil
}

func (h *head) parseField(line string) bool {
	f, ok := h.fields.Read(line, isPlainField)
	return ok && h.add(f.Name, f.Value)
}

// isPlainField reports whether a field may be in a plain head.
func isPlainField(name, value string) bool {
	switch name {
	case "Host":
		return isPlainHost(value)
	case "Connection":
		return strings.EqualFold(value, "keep-alive")
	}
	return !isSpecial(name)
}

// add adds a field to the header. There is at most one Host.
func (h *head) add(name, value string) bool {
	if name == "Host" {
		first := h.host == ""
		h.host = value
		return first
	}
	if present := h.header[name]; len(present) > 0 {
		h.header[name] = append(present, value)
		return true
	}
	if len(h.values) == cap(h.values) {
		h.values = make([]string, 0, 8)
	}
	h.values = append(h.values, value)
	n := len(h.values)
	h.header[name] = h.values[n-1 : n : n]
	return true
}

// complete returns what a complete head is.
func (h *head) complete() http1line.Verdict {
	if h.host == "" || len(h.header["Connection"]) > 1 {
		return http1line.Other
	}
	return http1line.Plain
}

// isSpecial reports whether a field changes how the request or the connection is read, or
// makes net/http change the header.
func isSpecial(name string) bool {
	switch name {
	case "Content-Length", "Transfer-Encoding", "Trailer", "Te", // RFC 9112, sections 6 and 7
		"Expect",                    // RFC 9110, section 10.1.1
		"Upgrade", "Http2-Settings", // RFC 9110, section 7.8
		"Keep-Alive", "Proxy-Connection", // RFC 9112, appendix C.2.2
		"Pragma": // net/http adds a Cache-Control
		return true
	}
	return false
}

// isPlainHost accepts names, IPv4 and IPv6 addresses, with and without a port.
func isPlainHost(host string) bool {
	for i := range len(host) {
		c := host[i]
		if letter := c | ' '; (letter < 'a' || letter > 'z') && (c < '0' || c > '9') && strings.IndexByte(".-_:[]", c) < 0 {
			return false
		}
	}
	return host != ""
}
