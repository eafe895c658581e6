package server

import (
	"io"
	"net/http"
	"net/http/pprof"

	"github.com/stintdev/stint/cmd/stint/internal/adminapi"
)

// adminHandler returns the handler of the admin listener.
func (s *Server) adminHandler() http.Handler {
	t := &router{server: s, paths: s.healthRoutes()}
	t.paths["/metrics"] = route{http.MethodGet, s.forRole(adminapi.Viewer, s.metrics.Handler().ServeHTTP)}
	t.folders = s.rulesAPI()
	if s.config.Profiling {
		t.folders = append(t.folders, folder{profilePath, s.forRole(adminapi.Admin, profile)})
	}
	if s.adminTokens == nil {
		return s.fromThisMachine(t)
	}
	return t
}

// fromThisMachine refuses requests that a browser on this machine sends for another site.
// Without a token, listening on loopback is the only protection of the listener, and a
// browser on the machine bypasses it. The Origin identifies a page of another site. The
// Host identifies a page whose own name was pointed at this machine (DNS rebinding).
func (s *Server) fromThisMachine(next http.Handler) http.Handler {
	const refusal = "without --admin-token-file, pages of other sites are refused"
	return s.loopbackHostOnly(s.ownPagesOnly(next.ServeHTTP, refusal), refusal)
}

const profilePath = "/debug/pprof"

// profile serves the runtime profiles of this process.
func profile(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case profilePath + "/profile":
		pprof.Profile(w, r)
	case profilePath + "/trace":
		pprof.Trace(w, r)
	case profilePath + "/cmdline":
		commandName(w, r)
	case profilePath + "/symbol":
		pprof.Symbol(w, r)
	default:
		pprof.Index(w, r)
	}
}

// commandName replaces pprof.Cmdline, which shows every argument: a URL on the command
// line may contain a password.
func commandName(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = io.WriteString(w, "stint") // the client may be gone
}
