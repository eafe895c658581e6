package httplimit

import (
	"fmt"
	"net/http"
	"strings"
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
			return s, nil
		}
	}
	return Source{}, fmt.Errorf("%q is no source of an identity (use bearer, header:NAME, query:NAME, cookie:NAME or jwt:CLAIM)", text)
}

// String returns the source as [ParseSource] reads it.
func (s Source) String() string {
	if s.kind == fromBearer {
		return sourceKinds[fromBearer]
	}
	return sourceKinds[s.kind] + ":" + s.name
}

// read returns what stands there; empty is nothing. Where a name stands
// several times, the first one counts, as for handlers that ask for one value.
func (s Source) read(r *Request) string {
	switch s.kind {
	case fromHeader:
		return header(r.Request, s.name)
	case fromQuery:
		return query(r.URL.RawQuery, s.name)
	case fromCookie:
		if cookie, err := r.Cookie(s.name); err == nil {
			return cookie.Value
		}
		return ""
	case fromClaim:
		return r.claim(s.name)
	default:
		return bearer(header(r.Request, "Authorization"))
	}
}

// bearer returns the token of credentials of RFC 6750.
func bearer(credentials string) string {
	scheme, token, _ := strings.Cut(credentials, " ")
	if !strings.EqualFold(scheme, "bearer") {
		return ""
	}
	return strings.Trim(token, " ")
}

// header returns the first line of a header, Host included; name is canonical.
func header(r *http.Request, name string) string {
	if name == "Host" {
		return r.Host
	}
	if lines := r.Header[name]; len(lines) > 0 {
		return lines[0]
	}
	return ""
}
