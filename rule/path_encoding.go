package rule

import (
	"fmt"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/urlpath"
)

// PathEncoding says how the servers that rules protect read encoded separators and
// path parameters. Rules must read a path as those servers do: otherwise a client
// spells a path so that the server finds a resource whose rule does not match. The
// zero value is PathDecode.
type PathEncoding uint8

// The path encodings. In each, the paths in rules are read in the same way as the
// paths of requests.
const (
	// PathDecode is for servers that decode a path before they split it and drop the
	// text after a ";": "/v1%2Forders;a=1" is "/v1/orders". Such servers differ in
	// the order of their steps; a path that leads them to different resources is
	// refused.
	PathDecode PathEncoding = iota
	// PathKeep is for servers that treat "%2F" and ";" as part of a segment.
	PathKeep
	// PathReject refuses every path that servers read in different ways, whether or
	// not a rule reads the path.
	PathReject
)

var pathEncodingNames = [...]string{"decode", "keep", "reject"}

// String returns the name of the encoding, such as "decode".
func (e PathEncoding) String() string {
	if int(e) < len(pathEncodingNames) {
		return pathEncodingNames[e]
	}
	return fmt.Sprintf("PathEncoding(%d)", uint8(e))
}

// WithPathEncoding returns the same set for servers that read paths in another way.
func (s *Set) WithPathEncoding(e PathEncoding) *Set {
	other := s.orZero().copy()
	other.pathEncoding = e
	return other
}

// Form returns the form of the path of a URL that rules compare, for a program that
// chooses by the path what a rule protects: a path must not lead to an application by a
// spelling that its rule does not match. An error says that servers read the path
// differently; refuse such a request.
func (e PathEncoding) Form(path string) (string, error) {
	if e == PathReject {
		if err := urlpath.Check(path); err != nil {
			return "", err
		}
	}
	return e.read(path)
}

// read is Form for a path that a request may have.
func (e PathEncoding) read(path string) (string, error) {
	if e == PathKeep {
		return urlpath.Normalize(path), nil
	}
	return urlpath.Decode(path)
}

// checkPath refuses, under PathReject, a path that servers read in different ways.
func (q *request) checkPath() error {
	if q.set.pathEncoding != PathReject {
		return nil
	}
	path, _ := q.attributes.Attribute("path")
	if err := urlpath.Check(path); err != nil {
		return &stint.Error{Code: stint.CodeInvalid, Problem: "path: " + err.Error(), Mend: "write the path plainly"}
	}
	return nil
}
