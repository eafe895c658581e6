package server

import (
	"fmt"
	"net/http"

	"github.com/stintdev/stint/httplimit"
	"github.com/stintdev/stint/internal/gateway"
)

// gatewayHandler is the reverse proxy behind the rules.
func (s *Server) gatewayHandler() (http.Handler, error) {
	g, err := gateway.New(gateway.Options{Upstreams: s.config.Upstreams, Trusted: s.config.TrustedProxies, Logger: s.log})
	if err != nil {
		return nil, fmt.Errorf("upstream: %w", err)
	}
	s.gateway = g
	m := httplimit.Middleware{
		Decider:  &decider{s, surfaceGateway},
		Identity: s.identity(),
		OnError: func(w http.ResponseWriter, r *http.Request, _ http.Handler, err error) {
			s.logFailure(r, err)
			httplimit.WriteError(w, r, err)
		},
	}
	return fromWriters(s.config.StreamTimeout, gateway.WithRequestID(m.Wrap(g))), nil
}
