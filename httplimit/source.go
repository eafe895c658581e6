package httplimit

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/suggest"
)

// Source is a place in a request that may hold an identity. The zero value is the
// token of "Authorization: Bearer".
type Source struct {
	kind   sourceKind
	name   string
	scheme string // of a header: the word before the value; "" for the whole value
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

// ParseSource parses a source of a configuration: "bearer", "header:NAME",
// "header:NAME:SCHEME", "query:NAME", "cookie:NAME" or "jwt:CLAIM". A SCHEME is the word
// before the value: "header:Authorization:ApiKey" reads k from "Authorization: ApiKey k",
// and nothing from a field with another scheme, or without one. "header:Authorization"
// reads the whole field. The error suggests the most similar source.
func ParseSource(text string) (Source, error) {
	s, ok := parseSource(text)
	if !ok {
		known := "use bearer, header:NAME, header:NAME:SCHEME, query:NAME, cookie:NAME or jwt:CLAIM"
		if near, ok := nearest(text, sourceKinds[:1]); ok {
			known = fmt.Sprintf("did you mean %q? Otherwise %s", near, known)
		}
		return s, fmt.Errorf("%.100q is no source of an identity (%s)", text, known)
	}
	if s.scheme != "" && strings.ContainsFunc(s.scheme, notInToken) {
		return s, fmt.Errorf("%.100q: %.100q is no scheme of credentials (use letters, digits and -, without spaces)", text, s.scheme)
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

// parseSource is ParseSource without the cost of an error. It is called for each
// attribute of a request.
func parseSource(text string) (_ Source, ok bool) {
	kind, name, named := strings.Cut(text, ":")
	for i, known := range sourceKinds {
		if kind != known {
			continue
		}
		s := Source{kind: sourceKind(i), name: name}
		if s.kind == fromHeader {
			name, scheme, ok := strings.Cut(name, ":")
			if ok && (name == "" || scheme == "") {
				return Source{}, false
			}
			s.name, s.scheme = http.CanonicalHeaderKey(name), scheme
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
	text := sourceKinds[s.kind] + ":" + s.name
	if s.scheme != "" {
		text += ":" + s.scheme
	}
	return text
}

// read returns the value of the source in a request, "" if it has none. A value that
// servers read differently is an error.
func (s Source) read(r *Request) (string, error) {
	switch s.kind {
	case fromHeader:
		return readHeader(r.Request, s.name, s.scheme)
	case fromQuery:
		return query(r.target().RawQuery, s.name)
	case fromCookie:
		return cookie(r.Request, s.name)
	case fromClaim:
		return r.claim(s.name)
	default:
		return readHeader(r.Request, "Authorization", "Bearer")
	}
}

// readHeader returns the value of a header field, or what follows the scheme in it.
func readHeader(r *http.Request, name, scheme string) (string, error) {
	value, err := header(r, name)
	if err != nil || scheme == "" {
		return value, err
	}
	return credentials(name, scheme, value)
}

// cookie returns the value of a cookie. Different values are an error: some servers
// use the first and some the last.
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

// refused is the error for a request that servers read differently: a client could
// show one identity to this server and another to the application.
func refused(place, problem, mend string) error {
	return &stint.Error{Code: stint.CodeInvalid, Problem: place + ": " + problem, Mend: mend}
}

// ValidateAttribute returns an error if [Request.Attribute] knows no attribute of that
// name. The error suggests the most similar known name.
func ValidateAttribute(name string) error {
	if slices.Contains(plainAttributes[:], name) {
		return nil
	}
	if s, ok := parseSource(name); ok {
		if s.kind == fromHeader && (s.name == "Transfer-Encoding" || s.name == "Trailer") {
			return fmt.Errorf("%q: no request has that header, because net/http removes it (use another)", name)
		}
		if s.scheme != "" { // a scheme is for sources of the API key
			return fmt.Errorf("%.100q: no header can have the name %.100q (use letters, digits and -, without spaces)", name, s.name+":"+s.scheme)
		}
		_, err := ParseSource(name) // also checks the characters of the name
		return err
	}
	known := "use api_key, ip, method, path, host, header:NAME, query:NAME, cookie:NAME or jwt:CLAIM"
	if near, ok := nearest(name, plainAttributes[:]); ok {
		known = fmt.Sprintf("did you mean %q? Otherwise %s", near, known)
	}
	return fmt.Errorf("%.100q is no attribute of a request (%s)", name, known)
}

var plainAttributes = [...]string{"api_key", "ip", "method", "path", "host"}

// nearest returns the source or the attribute, among plain ones without a name of their
// own, that was probably meant. For "heder:x-tenant" it returns "header:x-tenant".
func nearest(name string, plain []string) (string, bool) {
	kind, rest, named := strings.Cut(name, ":")
	if !named {
		return suggest.Name(name, plain)
	}
	near, ok := suggest.Name(kind, sourceKinds[fromHeader:])
	return near + ":" + rest, ok && rest != ""
}

// isClaim reports whether an attribute is a token claim.
func isClaim(name string) bool {
	s, err := ParseSource(name)
	return err == nil && s.kind == fromClaim
}

// query returns the value of a query parameter. It parses as [url.ParseQuery] does,
// except that ";" separates parameters as "&" does, because some servers split there.
// A parameter that is given twice is an error: some servers use the first value, some
// the last, and some join them. A value that cannot be decoded is an error too,
// because some servers use it undecoded.
func query(raw, name string) (value string, err error) {
	found := false
	for raw != "" {
		pair := raw
		if end := strings.IndexAny(raw, "&;"); end >= 0 {
			pair, raw = raw[:end], raw[end+1:]
		} else {
			raw = ""
		}
		key, text, _ := strings.Cut(pair, "=")
		if pair == "" || !spells(key, name) {
			continue
		}
		if found {
			return "", refused("query parameter "+name, "is sent several times", "send it once")
		}
		found = true
		if value, err = url.QueryUnescape(text); err != nil {
			return "", refused("query parameter "+name, "cannot be decoded", "write % as %25")
		}
	}
	return value, nil
}

// spells reports whether key, which may be percent-encoded, decodes to name.
func spells(key, name string) bool {
	if !strings.ContainsAny(key, "%+") {
		return key == name
	}
	text, err := url.QueryUnescape(key)
	return err == nil && text == name
}
