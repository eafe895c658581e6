// Package urlpath gives every spelling of a path one form.
//
// Use it before a path is matched or counted: a client that spells one path
// in many ways ("/v1//orders", "/v1/%6Frders", "/v1/./orders/") must not meet
// another rule, or a fresh allowance, for each of them.
//
// Servers differ in what they take for a separator. [Decode] is for those that
// decode a path whole before they split it, and drop path parameters;
// [Normalize] is for those that keep "%2F" and ";" within a segment. Each
// promises that two spellings which a server of its kind reads as the same
// resource give the same text. [Check] refuses the paths that the two kinds
// read differently. None of them panics, whatever the input.
package urlpath

import (
	"bytes"
	"strings"
)

const upperHex = "0123456789ABCDEF"

// Normalize returns the one form of a path as it stood in a URL, for servers
// that keep encoded separators.
//
// It begins with "/". What needs no percent-encoding in a path segment
// (RFC 3986: pchar) is decoded; everything else is encoded with upper-case
// digits, and so are a "%" that encodes nothing, control characters and bytes
// beyond ASCII. "%2F" is never a separator and "%25" never decoded again.
// Segments "." and ".." are resolved and never rise above the root; doubled
// and trailing slashes go. A raw "?" or "#" ends the path, for callers that
// bring a whole request target. Case is kept.
//
// Normalize(Normalize(p)) equals Normalize(p). A path that is in its form
// already is returned as it is, without allocation.
func Normalize(path string) string {
	if isNormal(path) {
		return path
	}
	if end := strings.IndexAny(path, "?#"); end >= 0 {
		path = path[:end]
	}
	return resolve(recode(append(make([]byte, 0, len(path)+8), '/'), path))
}

// isNormal reports whether Normalize would change nothing. It may say no to a
// path in its form, never yes to another.
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

// recode appends path with every character in its one spelling.
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

// escape decodes the percent-encoded byte that s begins with, if it does.
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

// plain reports whether a character stands for itself in a segment.
func plain(c byte) bool {
	switch {
	case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		return true
	}
	return strings.IndexByte("-._~!$&'()*+,;=:@", c) >= 0
}
