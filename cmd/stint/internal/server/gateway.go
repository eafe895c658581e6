package server

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/stintdev/stint/cmd/stint/internal/gateway"
	"github.com/stintdev/stint/cmd/stint/internal/httpapi"
	"github.com/stintdev/stint/cmd/stint/internal/metrics"
	"github.com/stintdev/stint/cmd/stint/internal/slowclient"
	"github.com/stintdev/stint/httplimit"
	"github.com/stintdev/stint/resilience/adaptive"
	"github.com/stintdev/stint/resilience/deadline"
)

// gatewayHandler returns the reverse proxy behind the rules.
func (s *Server) gatewayHandler(denials *slowclient.Denials) (http.Handler, error) {
	g, err := gateway.New(s.gatewayOptions())
	if err != nil && len(s.config.GatewayGroups) > 0 {
		return nil, fmt.Errorf("gateway-config: %w", err)
	}
	if err != nil {
		return nil, fmt.Errorf("upstream: %w", err)
	}
	s.gateway = g
	s.metrics.ReadGateway(g)
	m, err := httplimit.New(denials.Decider(s.newRequestDecider(metrics.Gateway)), httplimit.Options{
		Identity: s.config.identity(),
		OnError: func(w http.ResponseWriter, r *http.Request, err error) bool {
			httpapi.ErrorWriter{Logger: s.log}.Log(r, err)
			httplimit.WriteError(w, r, err)
			return false
		},
	})
	if err != nil {
		return nil, fmt.Errorf("gateway: %w", err)
	}
	shed, err := s.shedding(g)
	if err != nil {
		return nil, err
	}
	decided := gateway.WithRequestID(denials.Wrap(m.Wrap(shed)))
	bodies := slowclient.Bodies(s.config.StreamTimeout, gateway.ErrSlowClient, gateway.WithoutHopByHop(s.rules.readsHeader, decided))
	arrived := deadline.Middleware{}.Arrived(bodies) // the gateway applies the deadline: no client may cut a decision short
	spelt := httplimit.SpellHeaders(arrived)
	return s.config.Tracer.Listener().HTTP("", spelt.ServeHTTP), nil
}

// gatewayOptions returns the routes and the groups of upstreams. Upstreams are one group
// that serves every request.
func (s *Server) gatewayOptions() gateway.Options {
	o := gateway.Options{Groups: s.config.GatewayGroups, Routes: s.config.GatewayRoutes}
	if len(o.Groups) == 0 {
		var group gateway.GroupOptions
		for _, target := range s.config.Upstreams {
			group.Servers = append(group.Servers, gateway.ServerOptions{URL: target})
		}
		o.Groups = []gateway.GroupOptions{group}
	}
	o.Identifies = s.identifiesClient
	o.Tracer = s.config.Tracer
	o.PathForm, o.Trusted, o.Logger = s.config.PathEncoding.Form, s.config.TrustedProxies, s.log
	o.RouteMetrics, o.GroupMetrics = s.metrics.Gateway()
	clients := s.config.identity().Clients
	o.ClientAddr = clients.Addr
	return o
}

// identifiesClient reports whether the settings name a header field as a source of keys or
// tokens.
func (s *Server) identifiesClient(field string) bool {
	id := s.config.identity()
	for _, source := range append(slices.Clip(id.APIKey), id.TokenFrom) {
		if name, ok := strings.CutPrefix(source.String(), "header:"); ok {
			name, _, _ = strings.Cut(name, ":") // without a scheme
			if http.CanonicalHeaderKey(name) == field {
				return true
			}
		}
	}
	return false
}

// shedding wraps the gateway in a limit on the requests in flight, if one is configured.
// Requests that the rules deny do not count towards it.
func (s *Server) shedding(g http.Handler) (http.Handler, error) {
	if s.config.GatewayAdapt == nil {
		return g, nil
	}
	gate, err := adaptive.New(adaptive.Options{Algorithm: s.config.GatewayAdapt, Max: s.config.GatewayMax})
	if err != nil {
		return nil, fmt.Errorf("gateway: %w", err)
	}
	s.metrics.ReadGate(gate)
	return adaptive.Middleware{Gate: gate, Refused: http.HandlerFunc(gateway.Overloaded)}.Wrap(g), nil
}
