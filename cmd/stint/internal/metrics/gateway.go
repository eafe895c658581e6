package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/stintdev/stint/cmd/stint/internal/gateway"
	"github.com/stintdev/stint/cmd/stint/internal/slowclient"
	"github.com/stintdev/stint/resilience/adaptive"
)

// statusClasses are the values of the label status, by the first digit of a status.
var statusClasses = [...]string{"canceled", "1xx", "2xx", "3xx", "4xx", "5xx"}

// answers returns the buckets of the time until an answer of an upstream begins, in
// seconds. The timeout of answers is 60 s by default.
func answers() []float64 {
	return []float64{500e-6, 1e-3, 2.5e-3, 5e-3, 10e-3, 25e-3, 50e-3, 100e-3, 250e-3, 500e-3, 1, 2.5, 5, 10, 30, 60}
}

// Gateway returns the functions that make the metrics of routes and of groups of
// upstreams. Their names come from settings.
func (m *Metrics) Gateway() (routes func(string) gateway.RouteMetrics, groups func(string) gateway.GroupMetrics) {
	requests := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "stint_gateway_requests_total",
		Help: "Requests through the gateway that the rules allowed, by route and status class; the route is empty where none matched, the status canceled where the client left first."}, []string{"route", "status"})
	seconds := newHistogram(prometheus.HistogramOpts{Name: "stint_gateway_duration_seconds",
		Help: "Time from a request allowed to the beginning of its answer, by route.", Buckets: answers()}, m.options.NativeHistograms, "route")
	inFlight := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "stint_gateway_requests_in_flight",
		Help: "Requests in flight through the gateway, by route, streams that have begun included."}, []string{"route"})
	failures := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "stint_gateway_upstream_failures_total",
		Help: "Failures of upstreams before an answer began, by group and kind: connect, timeout or broken."}, []string{"upstream", "kind"})
	fallbacks := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "stint_gateway_fallbacks_total",
		Help: "Requests that the fallback of their route answered, because no upstream did."}, []string{"route"})
	openings := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "stint_gateway_circuit_openings_total",
		Help: "How often the circuit breaker of a server has opened, by group."}, []string{"upstream"})
	ejections := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "stint_gateway_ejections_total",
		Help: "How often a server was ejected, by group."}, []string{"upstream"})
	panics := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "stint_gateway_panics_total",
		Help: "Choices of a server for which too few were usable, so that ejections and failed checks were not obeyed, by group."}, []string{"upstream"})
	retries := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "stint_gateway_retries_total",
		Help: "Requests that were to be sent again, by group and result: sent, or budget where the budget refused."}, []string{"upstream", "result"})
	responses := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "stint_gateway_upstream_responses_total",
		Help: "Answers of upstreams, by group and status class."}, []string{"upstream", "status"})
	latency := newHistogram(prometheus.HistogramOpts{Name: "stint_gateway_upstream_duration_seconds",
		Help: "Time from a request sent to an upstream to the beginning of its answer, by group.", Buckets: answers()}, m.options.NativeHistograms, "upstream")
	m.registry.MustRegister(responses, latency, requests, seconds, inFlight, failures, fallbacks, openings, ejections, panics, retries)
	return func(route string) gateway.RouteMetrics {
			r := gateway.RouteMetrics{Seconds: seconds.WithLabelValues(route), InFlight: inFlight.WithLabelValues(route), Fallbacks: fallbacks.WithLabelValues(route)}
			for class, status := range statusClasses {
				r.Status[class] = requests.WithLabelValues(route, status)
			}
			return r
		}, func(group string) gateway.GroupMetrics {
			g := gateway.GroupMetrics{
				Seconds: latency.WithLabelValues(group),
				Connect: failures.WithLabelValues(group, "connect"),
				Timeout: failures.WithLabelValues(group, "timeout"),
				Broken:  failures.WithLabelValues(group, "broken"),

				Openings: openings.WithLabelValues(group), Ejections: ejections.WithLabelValues(group), Panics: panics.WithLabelValues(group),
				Retries: retries.WithLabelValues(group, "sent"), RetriesRefused: retries.WithLabelValues(group, "budget"),
			}
			for class, status := range statusClasses {
				if class > 0 { // an upstream does not cancel
					g.Status[class] = responses.WithLabelValues(group, status)
				}
			}
			return g
		}
}

// ReadGateway shows the states of upstreams and the places of their bulkheads.
func (m *Metrics) ReadGateway(g *gateway.Gateway) {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, append([]string{"upstream"}, labels...), nil)
	}
	servers := desc("stint_gateway_upstream_servers", "Servers of a group of upstreams, by state: up, down, ejected, or open (its circuit).", "state")
	inUse := desc("stint_gateway_bulkhead_in_flight", "Requests that hold a place in the bulkhead of a group.")
	waiting := desc("stint_gateway_bulkhead_waiting", "Requests that wait for a place in the bulkhead of a group.")
	refused := desc("stint_gateway_bulkhead_refused_total", "Requests that the bulkhead of a group refused, by reason: full (the queue too) or waited (for too long).", "reason")
	m.registry.MustRegister(collector(func(s *scrape) {
		gauge := func(d *prometheus.Desc, v int, labels ...string) {
			s.to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(v), labels...)
		}
		for _, group := range g.Health() {
			for state, n := range map[string]int{"up": group.Up, "down": group.Down, "ejected": group.Ejected, "open": group.Open} {
				gauge(servers, n, group.Name, state)
			}
			if u := group.Bulkhead; u.Limit > 0 {
				gauge(inUse, u.InUse, group.Name)
				gauge(waiting, u.Waiting, group.Name)
				s.to <- prometheus.MustNewConstMetric(refused, prometheus.CounterValue, float64(u.Full), group.Name, "full")
				s.to <- prometheus.MustNewConstMetric(refused, prometheus.CounterValue, float64(u.Waited), group.Name, "waited")
			}
		}
	}))
}

// ReadGate shows the requests in flight through the gateway and their limit.
func (m *Metrics) ReadGate(gate *adaptive.Concurrency) {
	gauge := func(name, help string, value func(adaptive.Usage) int) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 { return float64(value(gate.Usage())) })
	}
	m.registry.MustRegister(
		gauge("stint_gateway_in_flight_limit", "How many requests may be in flight through the gateway now.", func(u adaptive.Usage) int { return u.Limit }),
		gauge("stint_gateway_in_flight", "Requests in flight through the gateway, except streams that have begun.", func(u adaptive.Usage) int { return u.InFlight }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "stint_gateway_shed_total",
			Help: "Requests that the gateway answered with 503 because the limit was reached."}, func() float64 { return float64(gate.Usage().Shed) }),
	)
}

// ReadAddresses shows what the gateway did to abusive client addresses.
func (m *Metrics) ReadAddresses(stats func() slowclient.AddressStats) {
	counter := func(o prometheus.CounterOpts, value func(slowclient.AddressStats) uint64) prometheus.Collector {
		return prometheus.NewCounterFunc(o, func() float64 { return float64(value(stats())) })
	}
	refused := func(reason string) prometheus.CounterOpts {
		return prometheus.CounterOpts{Name: "stint_gateway_connections_refused_total", ConstLabels: prometheus.Labels{"reason": reason},
			Help: "Connections to the gateway that were closed when they were accepted: their address had too many denials in a row, or too many connections."}
	}
	m.registry.MustRegister(
		counter(prometheus.CounterOpts{Name: "stint_gateway_connections_closed_total",
			Help: "Connections to the gateway that were ended because of denials in a row, of the connection or of its address."},
			func(s slowclient.AddressStats) uint64 { return s.Closed }),
		counter(prometheus.CounterOpts{Name: "stint_gateway_refusals_total",
			Help: "How often the gateway began to refuse connections of a client address because of denials in a row."},
			func(s slowclient.AddressStats) uint64 { return s.Refusals }),
		counter(refused("denials"), func(s slowclient.AddressStats) uint64 { return s.Refused }),
		counter(refused("connections"), func(s slowclient.AddressStats) uint64 { return s.OverLimit }),
		counter(prometheus.CounterOpts{Name: "stint_gateway_connections_untracked_total",
			Help: "Connections to the gateway that no bound of a client address applies to, because the table of addresses had no room."},
			func(s slowclient.AddressStats) uint64 { return s.Untracked }),
	)
}
