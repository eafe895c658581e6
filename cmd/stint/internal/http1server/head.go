package http1server

import (
	"bytes"
	"net/http"
	"net/textproto"
	"net/url"
	"strings"
)

// verdict says what the first bytes of a connection are.
type verdict uint8

const (
	incomplete verdict = iota // the beginning of a head that may be plain
	plain                     // a plain head
	notPlain                  // anything else
)

// head is the head of a plain request.
type head struct {
	method, target, host string
	url                  *url.URL
	header               http.Header
	size                 int // bytes up to and including the empty line
}

// fill sets the fields of a request.
func (h *head) fill(r *http.Request) {
	r.Method, r.RequestURI, r.URL, r.Host, r.Header = h.method, h.target, h.url, h.host, h.header
}

// parseHead reads the head of a request at the beginning of what has arrived. The head is
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
// All values are copies: a handler may keep one without keeping the others.
func parseHead(arrived []byte) (h head, found verdict) {
	line, rest, found := nextLine(arrived)
	if found != plain || !h.parseRequestLine(line) {
		if found == incomplete && mayBegin(arrived) {
			return h, incomplete
		}
		return h, notPlain
	}
	h.header = http.Header{}
	for {
		line, rest, found = nextLine(rest)
		switch {
		case found != plain:
			return h, found
		case len(line) > 0 && !h.parseField(line):
			return h, notPlain
		case len(line) == 0:
			h.size = len(arrived) - len(rest)
			return h, h.complete()
		}
	}
}

// nextLine cuts off the first line, without its end.
func nextLine(text []byte) (line, rest []byte, found verdict) {
	n := bytes.IndexByte(text, '\n')
	switch {
	case n < 0:
		return nil, nil, incomplete
	case n == 0 || text[n-1] != '\r':
		return nil, nil, notPlain
	}
	return text[:n-1], text[n+1:], plain
}

var methods = [...]string{http.MethodGet, http.MethodHead, http.MethodOptions}

// mayBegin reports whether the text is the beginning of a request line that may be plain.
// Clients that speak another protocol get their answer at once.
func mayBegin(text []byte) bool {
	for _, m := range methods {
		if n := min(len(m), len(text)); string(text[:n]) == m[:n] {
			return true
		}
	}
	return false
}

func (h *head) parseRequestLine(line []byte) bool {
	const version = " HTTP/1.1"
	for _, m := range methods {
		if len(line) > len(m) && string(line[:len(m)]) == m && line[len(m)] == ' ' {
			h.method, line = m, line[len(m)+1:]
			break
		}
	}
	target, ok := bytes.CutSuffix(line, []byte(version))
	if h.method == "" || !ok || len(target) == 0 || target[0] != '/' {
		return false
	}
	for _, c := range target {
		if c <= ' ' || c > '~' {
			return false
		}
	}
	h.target = string(target)
	var err error
	h.url, err = url.ParseRequestURI(h.target)
	return err == nil
}

func (h *head) parseField(line []byte) bool {
	colon := bytes.IndexByte(line, ':')
	if colon <= 0 || !isToken(line[:colon]) {
		return false
	}
	value := bytes.Trim(line[colon+1:], " \t")
	for _, c := range value {
		if (c < ' ' || c > '~') && c != '\t' {
			return false
		}
	}
	name := textproto.CanonicalMIMEHeaderKey(string(line[:colon]))
	switch {
	case name == "Host":
		ok := h.host == "" && isPlainHost(value)
		h.host = string(value)
		return ok
	case name == "Connection" && !bytes.EqualFold(value, []byte("keep-alive")), isSpecial(name):
		return false
	}
	h.header[name] = append(h.header[name], string(value))
	return true
}

// complete returns what a complete head is.
func (h *head) complete() verdict {
	if h.host == "" || len(h.header["Connection"]) > 1 {
		return notPlain
	}
	return plain
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

// isToken accepts the characters of a field name: RFC 9110, section 5.6.2.
func isToken(name []byte) bool {
	for _, c := range name {
		if !tokens[c] {
			return false
		}
	}
	return true
}

var tokens = func() (set [256]bool) {
	for c := range set {
		set[c] = '0' <= c && c <= '9' || 'a' <= c|' ' && c|' ' <= 'z' || strings.IndexByte("!#$%&'*+-.^_`|~", byte(c)) >= 0
	}
	return set
}()

// isPlainHost accepts names, IPv4 and IPv6 addresses, with and without a port.
func isPlainHost(host []byte) bool {
	for _, c := range host {
		if letter := c | ' '; (letter < 'a' || letter > 'z') && (c < '0' || c > '9') && strings.IndexByte(".-_:[]", c) < 0 {
			return false
		}
	}
	return len(host) > 0
}
