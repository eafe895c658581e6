package http1client

import (
	"net/http"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/stintdev/stint/cmd/stint/internal/http1line"
	"github.com/stintdev/stint/cmd/stint/internal/peek"
)

// Supports reports whether the transport can send the request: a GET, HEAD, OPTIONS or
// TRACE by http, without a body, an upgrade or anything else that http.Transport treats
// specially or refuses. Those methods may be repeated.
func Supports(r *http.Request) bool {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
	default:
		return false
	}
	if !peek.Supported || r.Body != nil && r.Body != http.NoBody || r.ContentLength != 0 || len(r.TransferEncoding) > 0 ||
		len(r.Trailer) > 0 || r.Close || r.URL.Scheme != "http" || !isPlainHost(hostOf(r)) {
		return false
	}
	for name, values := range r.Header {
		if isFraming(name) || name == "User-Agent" && len(values) > 1 || !httpguts.ValidHeaderFieldName(name) {
			return false
		}
		for _, v := range values {
			if !httpguts.ValidHeaderFieldValue(v) {
				return false
			}
		}
	}
	return isPlainTarget(r.URL.RequestURI())
}

// isFraming reports whether a field concerns the connection or the length of the body.
func isFraming(name string) bool {
	switch name {
	case "Connection", "Content-Length", "Expect", "Host", "Trailer", "Transfer-Encoding", "Upgrade":
		return true
	}
	return false
}

func hostOf(r *http.Request) string {
	if r.Host != "" {
		return r.Host
	}
	return r.URL.Host
}

// isPlainHost accepts a host that is written as it stands: letters, digits, and the
// punctuation of names, IPv6 addresses and ports. A zone is not for the server.
func isPlainHost(host string) bool {
	for i := range len(host) {
		switch c := host[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', strings.IndexByte(".-_:[]", c) >= 0:
		default:
			return false
		}
	}
	return host != ""
}

// isPlainTarget accepts a target of visible ASCII that begins with a slash.
func isPlainTarget(target string) bool {
	for i := range len(target) {
		if c := target[i]; c <= ' ' || c > '~' {
			return false
		}
	}
	return target != "" && target[0] == '/'
}

// write sends the request. An error is not returned: the server may have answered and
// closed the connection before it read the whole request, and if not, reading fails too.
func (c *conn) write() {
	c.output = appendRequest(c.output[:0], c.request)
	for rest := c.output; len(rest) > 0; {
		n, err := c.writePart(rest[:min(len(rest), partSize)])
		if err != nil {
			break
		}
		rest = rest[n:]
	}
	if cap(c.output) > partSize {
		c.output = nil
	}
}

func appendRequest(b []byte, r *http.Request) []byte {
	b = append(append(append(b, r.Method...), ' '), r.URL.RequestURI()...)
	b = append(append(append(b, " HTTP/1.1\r\nHost: "...), hostOf(r)...), "\r\n"...)
	for name, values := range r.Header {
		for _, v := range values {
			if name == "User-Agent" && v == "" {
				continue // keeps http.Transport from sending its own
			}
			b = append(append(b, name...), ": "...)
			b = append(append(b, http1line.Trim(v)...), "\r\n"...)
		}
	}
	return append(b, "\r\n"...)
}
