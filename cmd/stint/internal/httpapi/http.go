package httpapi

import (
	"net/http"

	"github.com/stintdev/stint/cmd/stint/internal/metrics"
)

// httpHandler is what the http listener answers.
func (s *Server) httpHandler() http.Handler {
	token, works := s.newGuard(s.httpToken), &workPool{server: s}
	t := &router{server: s, paths: s.healthRoutes()}
	for path, handle := range map[string]http.HandlerFunc{
		"/v1/check":    works.deciding((*batch).check),
		"/v1/take":     works.deciding((*batch).take),
		"/v1/peek":     works.deciding((*batch).peek),
		"/v1/giveback": works.deciding((*batch).giveBack),
		"/v1/batch":    works.working((*batch).many, works.answerMany),
	} {
		t.paths[path] = route{http.MethodPost, s.notFromPages(token.wrap(handle))}
	}
	t.paths["/openapi.yaml"] = route{http.MethodGet, s.openapi}
	t.paths["/json"] = route{http.MethodPost, s.notFromPages(token.wrap(s.api(metrics.Envoy, s.envoyJSON)))}
	// Forward auth carries the Origin and the Host of somebody else's request.
	t.folders = []folder{{authPath, token.wrap(s.newAuth().ServeHTTP)}}
	return t
}
