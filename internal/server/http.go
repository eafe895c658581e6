package server

import "net/http"

// httpHandler is what the http listener answers.
func (s *Server) httpHandler() http.Handler {
	token := s.newGuard(s.config.HTTPToken)
	t := &router{server: s, paths: s.healthRoutes()}
	t.paths["/v1/check"] = route{http.MethodPost, token.wrap(s.api(s.metrics.checks[surfaceCheck], s.check))}
	t.paths["/v1/take"] = route{http.MethodPost, token.wrap(s.api(s.metrics.checks[surfaceTake], s.take))}
	t.paths["/json"] = route{http.MethodPost, token.wrap(s.api(s.metrics.checks[surfaceEnvoy], s.envoyJSON))}
	t.folders = []folder{{authPath, token.wrap(s.newAuth().ServeHTTP)}}
	return t
}
