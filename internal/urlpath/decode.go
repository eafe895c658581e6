package urlpath

import (
	"errors"
	"strings"
)

// ErrAmbiguous is the error of [Decode] for a path that servers read differently.
var ErrAmbiguous = errors.New("an encoded / or a ; beside dot segments makes servers disagree on the path")

// Decode returns the canonical form of a path of a URL, for servers that decode a path
// before they split it into segments.
//
// The form is that of [Normalize], with two differences: an encoded slash separates
// segments like a plain one, and the text after a ";" in a segment is dropped. Both
// happen before dot segments are resolved, so "/a%2F..%2Fb" and "/a/..;x/b" become
// "/b". Everything is decoded once: "%252F" stays "%252F".
//
// Servers differ in these steps. Some remove parameters before they decode and some
// after, some do not know parameters, and some split before they decode. If these
// readings lead to different canonical paths, the error is [ErrAmbiguous]:
// "/a/..;/../b" is "/b" on some servers and "/a/b" on others.
//
// Decode(Decode(p)) equals Decode(p), and so does Normalize(Decode(p)). A path in
// canonical form is returned as it is, without allocation.
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

// hasSeparators reports whether a path has a character that only some servers treat as
// a separator.
func hasSeparators(path string) bool {
	return strings.IndexByte(path, ';') >= 0 ||
		strings.Contains(path, "%2F") || strings.Contains(path, "%2f") || strings.Contains(path, "%3B") || strings.Contains(path, "%3b")
}

// reading describes one kind of server that decodes a path before splitting it.
type reading struct {
	dropsPlain   bool // drops the text after ";"
	dropsEncoded bool // drops the text after "%3B"
	cutsFirst    bool // only a plain slash ends a parameter
}

var (
	parametersFirst = reading{dropsPlain: true, cutsFirst: true}
	decodesFirst    = reading{dropsPlain: true, dropsEncoded: true}
	noParameters    = reading{}
)

// resolve returns the path that such a server finds, in the form of [Normalize].
func (r reading) resolve(path string) string {
	to := append(make([]byte, 0, len(path)+8), '/')
	dropping := false // in a parameter, up to the next slash
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
