package server

import (
	"fmt"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stintdev/stint/cmd/stint/internal/gateway"
	"github.com/stintdev/stint/httplimit"
	"github.com/stintdev/stint/resilience/adaptive"
)

// gatewayHandler returns the reverse proxy behind the rules.
func (s *Server) gatewayHandler(p *closer) (http.Handler, error) {
	g, err := gateway.New(gateway.Options{Upstreams: s.config.Upstreams, Trusted: s.config.TrustedProxies, Logger: s.log})
	if err != nil {
		return nil, fmt.Errorf("upstream: %w", err)
	}
	s.gateway = g
	m := httplimit.Middleware{
		Decider:  p.decider(&decider{s, surfaceGateway}),
		Identity: s.identity(),
		OnError: func(w http.ResponseWriter, r *http.Request, _ http.Handler, err error) {
			s.logFailure(r, err)
			httplimit.WriteError(w, r, err)
		},
	}
	shed, err := s.shedding(g)
	if err != nil {
		return nil, err
	}
	decided := gateway.WithRequestID(p.wrap(m.Wrap(shed)))
	return fromWriters(s.config.StreamTimeout, gateway.WithoutHopByHop(s.rules.readsHeader, decided)), nil
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
	s.metrics.showShedding(gate)
	return adaptive.Middleware{Gate: gate, Refused: http.HandlerFunc(gateway.Overloaded)}.Wrap(g), nil
}

// showShedding registers the metrics of the requests in flight through the gateway.
func (m *metrics) showShedding(gate *adaptive.Concurrency) {
	gauge := func(name, help string, value func(adaptive.Usage) int) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 { return float64(value(gate.Usage())) })
	}
	m.registry.MustRegister(
		gauge("stint_gateway_limit", "How many requests may be in flight through the gateway now.", func(u adaptive.Usage) int { return u.Limit }),
		gauge("stint_gateway_in_flight", "Requests in flight through the gateway, streams that have begun aside.", func(u adaptive.Usage) int { return u.InFlight }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "stint_gateway_shed_total",
			Help: "Requests that the gateway answered with 503 because the limit was reached."}, func() float64 { return float64(gate.Usage().Shed) }),
	)
}
