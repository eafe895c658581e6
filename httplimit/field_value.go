package httplimit

import (
	"net/http"
	"strings"

	"github.com/stintdev/stint/internal/httpfield"
)

const space = " \t" // around a field value

// header returns the value of a header field, Host included; name must be canonical.
// Several lines of a list-valued field are joined. Several lines of any other field
// are an error: some servers use the first line, some the last, and some join them. A
// field whose name differs only by underscores in place of hyphens is an error too,
// because CGI and its successors treat both names as one.
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
		return strings.Trim(lines[0], space), nil // HTTP/2 keeps the space around a value; HTTP/1.1 drops it
	case name == "Cookie":
		return strings.Join(lines, "; "), nil
	case httpfield.IsList(name):
		return strings.Join(lines, ", "), nil
	}
	return "", refused(name, "is sent several times", "send it once")
}

// spelledWithUnderscores reports whether h has a field whose name equals name except
// for underscores in place of hyphens.
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

// credentials returns the token that follows the scheme in a field such as Authorization
// (RFC 9110, section 11.4; for Bearer, RFC 6750), "" for another scheme. Servers differ
// in which characters they skip as space and in where a token ends. So the token must be
// one word of visible ASCII without a comma; everything else is an error.
func credentials(field, scheme, value string) (string, error) {
	if len(value) < len(scheme) || !strings.EqualFold(value[:len(scheme)], scheme) {
		return "", nil
	}
	rest := value[len(scheme):]
	token := strings.Trim(rest, space)
	switch {
	case token == "":
		return "", nil
	case len(token) == len(rest): // no space after the scheme
		if isLetterOrDigit(rest[0]) || rest[0] == '-' || rest[0] == '_' {
			return "", nil // a scheme of a longer name
		}
		return "", refused(field, "has no space after "+scheme, "write "+scheme+", a space and the token")
	}
	for i := range len(token) {
		if c := token[i]; c <= ' ' || c > '~' || c == ',' {
			return "", refused(field, "has more than one token after "+scheme+", or one that is not visible ASCII", "send one token")
		}
	}
	return token, nil
}

func isLetterOrDigit(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}
