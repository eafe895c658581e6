package urlpath

import (
	"errors"
	"strings"
)

// ErrAmbiguous is the error of [Decode] for a path that servers read
// differently.
var ErrAmbiguous = errors.New("an encoded / or a ; beside dot segments makes servers disagree on the path")

// Decode returns the one form of a path as it stood in a URL, for servers that
// decode a path before they split it into segments.
//
// It is the form of [Normalize], but for two things: an encoded slash separates
// segments as a plain one does, and what follows a ";" in a segment is dropped.
// Both happen before dot segments are resolved, so that "/a%2F..%2Fb" and
// "/a/..;x/b" are "/b". Everything is decoded once: "%252F" stays "%252F".
//
// Not all servers do all of that. Some find parameters before they decode and
// some after it, some have no parameters, and some decode after they split. A
// path that one of them resolves to another path than the others, and whose
// rule would be another, is [ErrAmbiguous]: "/a/..;/../b" is "/b" or "/a/b".
//
// Decode(Decode(p)) equals Decode(p), and so does Normalize(Decode(p)). A path
// that is in its form already is returned as it is, without allocation.
func Decode(path string) (string, error) {
	if isNormal(path) && strings.IndexByte(path, ';') < 0 {
		return path, nil
	}
	if end := strings.IndexAny(path, "?#"); end >= 0 {
		path = path[:end]
	}
	if !hasSeparators(path) {
		return Normalize(path), nil // all servers agree
	}
	form := decodesFirst.resolve(path)
	for _, found := range []string{parametersFirst.resolve(path), noParameters.resolve(path), Normalize(path)} {
		if decodesFirst.resolve(found) != form {
			return "", ErrAmbiguous
		}
	}
	return form, nil
}

// hasSeparators reports whether a path has anything that only some servers take
// for a separator.
func hasSeparators(path string) bool {
	return strings.IndexByte(path, ';') >= 0 ||
		strings.Contains(path, "%2F") || strings.Contains(path, "%2f") || strings.Contains(path, "%3B") || strings.Contains(path, "%3b")
}

// reading is how servers read a path that decode it before they split it.
type reading struct {
	dropsPlain   bool // what follows a ";"
	dropsEncoded bool // what follows a "%3B"
	cutsFirst    bool // parameters end at a plain slash alone
}

var (
	parametersFirst = reading{dropsPlain: true, cutsFirst: true}
	decodesFirst    = reading{dropsPlain: true, dropsEncoded: true}
	noParameters    = reading{}
)

// resolve returns the path that a server finds, in the form of [Normalize].
func (r reading) resolve(path string) string {
	to := append(make([]byte, 0, len(path)+8), '/')
	dropping := false // up to the next slash
	for i := 0; i < len(path); i++ {
		c, encoded := path[i], false
		if c == '%' {
			var decoded byte
			if decoded, encoded = escape(path[i:]); encoded {
				c, i = decoded, i+2
			}
		}
		switch {
		case dropping && encoded && r.cutsFirst:
		case c == '/':
			to, dropping = append(to, '/'), false
		case dropping:
		case c == ';' && (encoded && r.dropsEncoded || !encoded && r.dropsPlain):
			dropping = true
		case plain(c):
			to = append(to, c)
		default:
			to = appendEscape(to, c)
		}
	}
	return resolve(to)
}
