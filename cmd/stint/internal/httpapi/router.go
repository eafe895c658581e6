package httpapi

import (
	"net/http"
	"strings"
)

// router finds the endpoint of a path by the letter: it neither cleans paths
// nor redirects, because forward auth carries the path of somebody else's
// request behind its own.
type router struct {
	server  *Server
	paths   map[string]route
	folders []folder
}

// route is what one path answers. GET allows HEAD too; no method allows any.
type route struct {
	method string
	handle http.HandlerFunc
}

// folder is a prefix whose paths have one endpoint. Parameters may follow it,
// after a semicolon.
type folder struct {
	prefix string // without the slash at its end
	handle http.HandlerFunc
}

func (t *router) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	for _, f := range t.folders {
		if rest, ok := strings.CutPrefix(r.URL.Path, f.prefix); ok && (rest == "" || rest[0] == '/' || rest[0] == ';') {
			f.handle(w, r)
			return
		}
	}
	found, ok := t.paths[r.URL.Path]
	switch {
	case !ok:
		t.server.fail(w, r, &apiError{http.StatusNotFound, codeNotFound, "there is nothing at " + shown(r.URL.Path)})
	case !found.allows(r.Method):
		w.Header().Set("Allow", found.allowed())
		t.server.fail(w, r, &apiError{http.StatusMethodNotAllowed, codeMethod, "use " + found.allowed()})
	default:
		found.handle(w, r)
	}
}

func (f route) allows(method string) bool {
	return f.method == "" || method == f.method || f.method == http.MethodGet && method == http.MethodHead
}

func (f route) allowed() string {
	if f.method == http.MethodGet {
		return "GET, HEAD"
	}
	return f.method
}
