package httplimit

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/suggest"
)

// Source is one place of a request where an identity may stand. The zero
// value is the token of "Authorization: Bearer".
type Source struct {
	kind sourceKind
	name string
}

type sourceKind uint8

const (
	fromBearer sourceKind = iota
	fromHeader
	fromQuery
	fromCookie
	fromClaim
)

var sourceKinds = [...]string{"bearer", "header", "query", "cookie", "jwt"}

// ParseSource reads a source as configuration names it: "bearer",
// "header:NAME", "query:NAME", "cookie:NAME" or "jwt:CLAIM".
func ParseSource(text string) (Source, error) {
	s, ok := parseSource(text)
	if !ok {
		return s, fmt.Errorf("%q is no source of an identity (use bearer, header:NAME, query:NAME, cookie:NAME or jwt:CLAIM)", text)
	}
	if (s.kind == fromHeader || s.kind == fromCookie) && strings.ContainsFunc(s.name, notInToken) {
		return s, fmt.Errorf("%.100q: no %s can have the name %.100q (use letters, digits and -, without spaces)", text, sourceKinds[s.kind], s.name)
	}
	return s, nil
}

// notInToken reports whether a rune cannot be in the name of a header or a
// cookie (RFC 9110, section 5.6.2).
func notInToken(r rune) bool {
	return r <= ' ' || r >= 0x7f || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, r)
}

// parseSource is ParseSource without the cost of an error, for attributes that
// requests do not have.
func parseSource(text string) (_ Source, ok bool) {
	kind, name, named := strings.Cut(text, ":")
	for i, known := range sourceKinds {
		if kind != known {
			continue
		}
		s := Source{kind: sourceKind(i), name: name}
		if s.kind == fromHeader {
			s.name = http.CanonicalHeaderKey(name)
		}
		if wantsName := s.kind != fromBearer; wantsName == (named && name != "") {
			return s, true
		}
	}
	return Source{}, false
}

// String returns the source as [ParseSource] reads it.
func (s Source) String() string {
	if s.kind == fromBearer {
		return sourceKinds[fromBearer]
	}
	return sourceKinds[s.kind] + ":" + s.name
}

// read returns what stands there; empty is nothing. What servers read in
// different ways is an error.
func (s Source) read(r *Request) (string, error) {
	switch s.kind {
	case fromHeader:
		return header(r.Request, s.name)
	case fromQuery:
		return query(r.target().RawQuery, s.name)
	case fromCookie:
		return cookie(r.Request, s.name)
	case fromClaim:
		return r.claim(s.name)
	default:
		credentials, err := header(r.Request, "Authorization")
		if err != nil {
			return "", err
		}
		return bearer(credentials)
	}
}

// cookie returns the value of a cookie. Of several, some servers take the first
// and some the last.
func cookie(r *http.Request, name string) (string, error) {
	cookies := r.CookiesNamed(name)
	if len(cookies) == 0 {
		return "", nil
	}
	for _, other := range cookies[1:] {
		if other.Value != cookies[0].Value {
			return "", refused("cookie "+name, "has several values", "send one")
		}
	}
	return cookies[0].Value, nil
}

// refused is the error of a request that servers read in different ways: a
// client could show this server one identity and the application another.
func refused(place, problem, mend string) error {
	return &stint.Error{Code: stint.CodeInvalid, Problem: place + ": " + problem, Mend: mend}
}

// ValidateAttribute says what is wrong with the name of an attribute that
// requests are to be counted by: that [Request.Attribute] knows no such name.
// It names the known one that is nearest.
func ValidateAttribute(name string) error {
	if slices.Contains(plainAttributes[:], name) {
		return nil
	}
	if _, ok := parseSource(name); ok {
		_, err := ParseSource(name) // which also looks at the name of a header
		return err
	}
	known := "use api_key, ip, method, path, host, header:NAME, query:NAME, cookie:NAME or jwt:CLAIM"
	if near, ok := nearestAttribute(name); ok {
		known = fmt.Sprintf("did you mean %q? Else %s", near, known)
	}
	return fmt.Errorf("%.100q is no attribute of a request (%s)", name, known)
}

var plainAttributes = [...]string{"api_key", "ip", "method", "path", "host"}

// nearestAttribute is the name that was probably meant. Of "heder:x-tenant" it
// is "header:x-tenant".
func nearestAttribute(name string) (string, bool) {
	kind, rest, named := strings.Cut(name, ":")
	if !named {
		return suggest.Name(name, plainAttributes[:])
	}
	near, ok := suggest.Name(kind, sourceKinds[fromHeader:])
	return near + ":" + rest, ok && rest != ""
}

// isClaim reports whether an attribute is a claim of a token.
func isClaim(name string) bool {
	s, err := ParseSource(name)
	return err == nil && s.kind == fromClaim
}
