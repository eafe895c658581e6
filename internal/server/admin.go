package server

import (
	"net/http"
	"net/http/pprof"

	"github.com/stintdev/stint/internal/adminapi"
)

// adminHandler is what the admin listener answers.
func (s *Server) adminHandler() http.Handler {
	t := &router{server: s, paths: s.healthRoutes()}
	t.paths["/metrics"] = route{http.MethodGet, s.forRole(adminapi.Viewer, s.metrics.handler().ServeHTTP)}
	t.folders = s.rulesAPI()
	if s.config.Profiling {
		t.folders = append(t.folders, folder{profilePath, s.forRole(adminapi.Admin, profile)})
	}
	if s.adminTokens == nil {
		return s.fromThisMachine(t)
	}
	return t
}

// fromThisMachine refuses what a page in a browser on this machine sends:
// without a token, listening on loopback is all that protects the listener,
// and a browser is inside of it. A page of another site is known by its
// origin, one that has pointed its own name here by the name.
func (s *Server) fromThisMachine(next http.Handler) http.Handler {
	foreign := func(w http.ResponseWriter, r *http.Request) {
		s.fail(w, r, &apiError{http.StatusForbidden, codeForbidden, "without --admin-token-file, pages of other sites are refused"})
	}
	origins := http.NewCrossOriginProtection()
	origins.SetDenyHandler(http.HandlerFunc(foreign))
	checked := origins.Handler(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !loopback(r.Host) && !loopback(r.Host+":0") {
			foreign(w, r)
			return
		}
		checked.ServeHTTP(w, r)
	})
}

const profilePath = "/debug/pprof"

// profile serves the profiles of this process.
func profile(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case profilePath + "/profile":
		pprof.Profile(w, r)
	case profilePath + "/trace":
		pprof.Trace(w, r)
	case profilePath + "/cmdline":
		pprof.Cmdline(w, r)
	case profilePath + "/symbol":
		pprof.Symbol(w, r)
	default:
		pprof.Index(w, r)
	}
}
