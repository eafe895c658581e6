package gateway

import (
	"cmp"
	"net/http"
	"net/url"
	"strings"
)

// findRoute sets the route of the exchange and, if the route changes paths, the path that
// the group gets. It returns the answer to a request that cannot be routed, or nil.
func (x *exchange) findRoute(all *routes, r *http.Request) *failure {
	t, form, problem := all.find(r)
	if problem != nil {
		return problem
	}
	x.begin(t)
	if t.strip == "" && t.add == "" {
		return nil
	}
	rest, ok := t.stripped(r.URL.EscapedPath(), form, all.form)
	if !ok {
		return &failure{http.StatusBadRequest, "BAD_PATH", "The path is not written as its route is; write it without dot segments and escapes", 0}
	}
	escaped := cmp.Or(t.add+rest, "/")
	x.path = &url.URL{RawPath: escaped}
	x.path.Path, _ = url.PathUnescape(escaped) // made of parts that are valid
	return nil
}

// stripped returns an escaped path without the prefix that the route strips.
//
// The group gets the rest of the path as the client wrote it, because a final slash or an
// escape may matter there. But the prefix cannot simply be cut off: "/v1/../v1/orders" is
// /v1/orders for the rules and the route, and "/../v1/orders" without its first five
// characters. So the rest, read on its own, must be what follows the prefix in the form of
// the whole path, and must not leave its root for servers that read ";" in another way. If
// it is not so, stripped returns false.
func (t *route) stripped(escaped, form string, formOf func(string) (string, error)) (string, bool) {
	if t.strip == "" {
		return escaped, true
	}
	rest, ok := strings.CutPrefix(escaped, t.strip)
	if !ok || rest != "" && rest[0] != '/' {
		return "", false
	}
	restForm, err := formOf(rest)
	if err != nil || t.strip+strings.TrimSuffix(restForm, "/") != form {
		return "", false
	}
	decoded, err := url.PathUnescape(rest)
	return rest, err == nil && !climbs(decoded)
}
