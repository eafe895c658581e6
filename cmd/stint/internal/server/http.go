package server

import (
	"net/http"

	"github.com/stintdev/stint/cmd/stint/internal/decide"
	"github.com/stintdev/stint/cmd/stint/internal/httpapi"
	"github.com/stintdev/stint/cmd/stint/internal/metrics"
	"github.com/stintdev/stint/rule"
)

// httpHandler returns the handler of the http listener.
func (s *Server) httpHandler() http.Handler {
	t := s.newRouter()
	httpapi.New(httpapi.Options{
		Decider: s.newDecider(metrics.Check, metrics.Take, s.rules.checkPath),
		Auth:    s.newForwardAuth(),
		Envoy:   s.shouldRateLimit,
		Token:   s.httpToken, Refused: s.metrics.TokenRefused,
		Loopback: httpapi.Loopback(s.config.HTTP),
		Logger:   s.log,
	}).AddTo(t)
	return t
}

// newRouter returns a router with the health endpoints.
func (s *Server) newRouter() *httpapi.Router {
	return &httpapi.Router{Paths: s.healthRoutes(), Errors: httpapi.ErrorWriter{Logger: s.log}}
}

func (s *Server) newForwardAuth() *httpapi.ForwardAuth {
	return httpapi.NewForwardAuth(s.newRequestDecider(metrics.Auth), s.config.TrustedProxies, s.log)
}

func (s *Server) newRequestDecider(of metrics.Surface) *httpapi.RequestDecider {
	return httpapi.NewRequestDecider(s.newDecider(of, of, s.rules.checkPath))
}

// newDecider returns a decider by the rules in force, whose checks and takes are measured
// as those of the given surfaces.
func (s *Server) newDecider(check, take metrics.Surface, checkPath func(rule.Attributes) error) *decide.Decider {
	return decide.New(decide.Options{
		Store:     s.rules.store,
		Rules:     func() decide.Rules { return s.rules.current.Load() },
		CheckPath: checkPath,
		Observe:   func(r decide.Report) { s.metrics.ObserveDecisions(check, take, &r) },
	})
}
