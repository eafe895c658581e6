// Package urlpath converts every spelling of a path to one canonical form.
//
// Use it before a path is matched or counted. Otherwise a client could spell one path
// in many ways ("/v1//orders", "/v1/%6Frders", "/v1/./orders/") and get another rule,
// or a new allowance, for each of them.
//
// Servers differ in what separates segments. [Decode] is for servers that decode a
// whole path before they split it, and drop path parameters. [Normalize] is for
// servers that keep "%2F" and ";" within a segment. Both promise that two spellings of
// one resource, as such a server reads them, get the same form. [Check] refuses the
// paths that the two kinds read differently. No function of this package panics on any
// input.
package urlpath

import (
	"bytes"
	"strings"
)

const upperHex = "0123456789ABCDEF"

// Normalize returns the canonical form of a path of a URL, for servers that keep
// encoded separators.
//
// The form begins with "/". Characters that a path segment may contain (RFC 3986:
// pchar) are decoded. All others are percent-encoded in upper case, including control
// characters, bytes beyond ASCII and a "%" that begins no escape. "%2F" is never a
// separator, and "%25" is never decoded. Segments "." and ".." are resolved and never
// rise above the root. Empty segments and a trailing slash are removed. A raw "?" or
// "#" ends the path, so a caller may pass a whole request target. Case is kept.
//
// Normalize(Normalize(p)) equals Normalize(p). A path in canonical form is returned as
// it is, without allocation.
func Normalize(path string) string {
	if isNormal(path) {
		return path
	}
	if end := strings.IndexAny(path, "?#"); end >= 0 {
		path = path[:end]
	}
	return resolve(recode(append(make([]byte, 0, len(path)+8), '/'), path))
}

// isNormal reports whether a path is in canonical form. It may return false for a
// canonical path, but never true for another.
func isNormal(path string) bool {
	if path == "" || path[0] != '/' || len(path) > 1 && path[len(path)-1] == '/' {
		return false
	}
	for i := range len(path) {
		c := path[i]
		switch {
		case c == '/':
			if next := i + 1; next < len(path) && (path[next] == '/' || path[next] == '.') {
				return false
			}
		case !plain(c):
			return false
		}
	}
	return true
}

// recode appends path with every character in its canonical spelling.
func recode(to []byte, path string) []byte {
	for i := 0; i < len(path); i++ {
		c := path[i]
		decoded, ok := byte(0), false
		if c == '%' {
			decoded, ok = escape(path[i:])
		}
		switch {
		case ok && plain(decoded):
			to, i = append(to, decoded), i+2
		case ok:
			to, i = appendEscape(to, decoded), i+2
		case c == '/' || plain(c):
			to = append(to, c)
		default:
			to = appendEscape(to, c)
		}
	}
	return to
}

// resolve removes empty and dot segments, in place. The path begins with "/".
func resolve(path []byte) string {
	kept := path[:0]
	for rest := path; len(rest) > 0; {
		end := len(rest)
		if next := bytes.IndexByte(rest[1:], '/'); next >= 0 {
			end = 1 + next
		}
		switch string(rest[:end]) {
		case "/", "/.":
		case "/..":
			kept = kept[:max(0, bytes.LastIndexByte(kept, '/'))]
		default:
			kept = append(kept, rest[:end]...)
		}
		rest = rest[end:]
	}
	if len(kept) == 0 {
		return "/"
	}
	return string(kept)
}

// escape decodes the percent-encoded byte at the start of s. It returns false if there
// is none.
func escape(s string) (byte, bool) {
	if len(s) < 3 {
		return 0, false
	}
	high, ok := unhex(s[1])
	low, ok2 := unhex(s[2])
	return high<<4 | low, ok && ok2
}

func unhex(c byte) (byte, bool) {
	switch {
	case '0' <= c && c <= '9':
		return c - '0', true
	case 'a' <= c && c <= 'f':
		return c - 'a' + 10, true
	case 'A' <= c && c <= 'F':
		return c - 'A' + 10, true
	}
	return 0, false
}

func appendEscape(to []byte, c byte) []byte {
	return append(to, '%', upperHex[c>>4], upperHex[c&15])
}

// plain reports whether a character is not encoded in a canonical segment.
func plain(c byte) bool {
	switch {
	case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		return true
	}
	return strings.IndexByte("-._~!$&'()*+,;=:@", c) >= 0
}
