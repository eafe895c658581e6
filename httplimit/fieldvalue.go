package httplimit

import (
	"net/http"
	"strings"

	"github.com/stintdev/stint/internal/httpfield"
)

const space = " \t" // around a field value

// header returns the value of a header field, Host included; name is
// canonical. Several lines of a field whose value is a list are one list. Those
// of any other field are an error: of two lines some servers take the first,
// some the last, and some join them. So is a field whose name differs in
// underscores for hyphens alone, which CGI and its heirs read as the same.
func header(r *http.Request, name string) (string, error) {
	if name == "Host" {
		return r.Host, nil
	}
	if spelledWithUnderscores(r.Header, name) {
		return "", refused(name, "is also sent with underscores in its name", "send it once, with hyphens")
	}
	switch lines := r.Header[name]; {
	case len(lines) == 0:
		return "", nil
	case len(lines) == 1:
		return strings.Trim(lines[0], space), nil // HTTP/2 carries space at the ends, which HTTP/1.1 drops
	case name == "Cookie":
		return strings.Join(lines, "; "), nil
	case httpfield.IsList(name):
		return strings.Join(lines, ", "), nil
	}
	return "", refused(name, "is sent several times", "send it once")
}

// spelledWithUnderscores reports whether a header has a field that is called
// name but for underscores in place of hyphens.
func spelledWithUnderscores(h http.Header, name string) bool {
	if strings.IndexByte(name, '-') < 0 {
		return false
	}
	for other := range h {
		if len(other) == len(name) && strings.IndexByte(other, '_') >= 0 && strings.EqualFold(strings.ReplaceAll(other, "_", "-"), name) {
			return true
		}
	}
	return false
}

const bearerScheme = "bearer"

// bearer returns the token of credentials of RFC 6750; empty for those of
// another scheme. Servers differ in what they take for space, and in where they
// take a token to end, so that anything but one word of visible ASCII without a
// comma is an error.
func bearer(credentials string) (string, error) {
	if len(credentials) < len(bearerScheme) || !strings.EqualFold(credentials[:len(bearerScheme)], bearerScheme) {
		return "", nil
	}
	rest := credentials[len(bearerScheme):]
	token := strings.Trim(rest, space)
	switch {
	case token == "":
		return "", nil
	case len(token) == len(rest): // no space after the scheme
		if isLetterOrDigit(rest[0]) || rest[0] == '-' || rest[0] == '_' {
			return "", nil // a scheme of a longer name
		}
		return "", refused("Authorization", "has no space after Bearer", "write Bearer, a space and the token")
	}
	for i := range len(token) {
		if c := token[i]; c <= ' ' || c > '~' || c == ',' {
			return "", refused("Authorization", "has more than one token after Bearer, or one that is not visible ASCII", "send one token")
		}
	}
	return token, nil
}

func isLetterOrDigit(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}
