package server

import (
	"net/http"
	"net/http/pprof"

	"github.com/stintdev/stint"
)

// adminHandler is what the admin listener answers.
func (s *Server) adminHandler() http.Handler {
	token := s.newGuard(s.config.AdminToken)
	t := &router{server: s, paths: s.healthRoutes()}
	t.paths["/metrics"] = route{http.MethodGet, token.wrap(s.metrics.handler().ServeHTTP)}
	t.paths["/v1/reset"] = route{http.MethodPost, token.wrap(s.api(nil, s.reset))}
	t.folders = s.rulesAPI()
	if s.config.Profiling {
		t.folders = append(t.folders, folder{profilePath, token.wrap(profile)})
	}
	if s.config.AdminToken == "" {
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

// reset answers POST /v1/reset: it forgets what a key has used of a limit.
func (s *Server) reset(r *http.Request, body []byte) (status int, answer any, err error) {
	var key string
	var limit stint.Limit
	err = decodeObject(body, fields{
		"key": stringField("key", &key),
		"limit": func(raw []byte) (err error) {
			limit, err = s.limits.get(raw)
			return within("limit", err)
		},
	})
	if err == nil {
		err = stint.ValidateKey(key)
	}
	if err == nil && !limit.Valid() {
		err = badRequest("limit: is missing")
	}
	if err != nil {
		return 0, nil, err
	}
	_, err = s.store.Take(r.Context(), stint.Claim{Key: key, Limit: limit, Cost: stint.Forget})
	return http.StatusOK, resetBody{Forgotten: true}, err
}

type resetBody struct {
	Forgotten bool `json:"forgotten"`
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
