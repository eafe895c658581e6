package gateway

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/stintdev/stint/resilience/bulkhead"
)

// Counter counts events.
type Counter interface{ Inc() }

// Gauge counts what exists now.
type Gauge interface {
	Inc()
	Dec()
}

// Histogram records values.
type Histogram interface{ Observe(float64) }

// RouteMetrics are the metrics of one route.
type RouteMetrics struct {
	// Status counts requests by the first digit of the status of their answers, the
	// gateway's own answers included. The first one counts requests whose client left
	// before their answer began.
	Status [6]Counter
	// Seconds records the time until an answer began.
	Seconds Histogram
	// InFlight counts the requests in flight, streams that have begun included.
	InFlight Gauge
	// Fallbacks counts the answers of the fallback.
	Fallbacks Counter
}

// GroupMetrics are the metrics of one group of upstreams.
type GroupMetrics struct {
	// Connect, Timeout and Broken count failures: dials that failed, answers that did not
	// come in time, and connections that broke or were not HTTP before an answer began.
	Connect, Timeout, Broken Counter

	// Openings counts how often a circuit breaker has opened, and Ejections how often an
	// upstream was ejected. Panics counts the requests for which ejections and failed
	// checks were not obeyed.
	Openings, Ejections, Panics Counter

	// Retries counts requests sent again, and RetriesRefused those that the budget
	// refused.
	Retries, RetriesRefused Counter

	// Status counts the answers of the upstreams by the first digit of their status, and
	// Seconds records the time until each began.
	Status  [6]Counter
	Seconds Histogram
}

type noMetric struct{}

func (noMetric) Inc()            {}
func (noMetric) Dec()            {}
func (noMetric) Observe(float64) {}

func noRouteMetrics(string) RouteMetrics {
	var n noMetric
	return RouteMetrics{Status: [6]Counter{n, n, n, n, n, n}, Seconds: n, InFlight: n, Fallbacks: n}
}

func noGroupMetrics(string) GroupMetrics {
	var n noMetric
	return GroupMetrics{
		Connect: n, Timeout: n, Broken: n, Openings: n, Ejections: n, Panics: n, Retries: n, RetriesRefused: n,
		Status: [6]Counter{n, n, n, n, n, n}, Seconds: n,
	}
}

// GroupHealth is the state of a group of upstreams.
type GroupHealth struct {
	Name string

	// Up, Down, Ejected and Open are the numbers of upstreams that get requests, cannot be
	// reached or fail their checks, are ejected, and have an open circuit. Each upstream
	// counts once, under the last of these that applies.
	Up, Down, Ejected, Open int

	// Bulkhead is the usage of the bulkhead. Its Limit is 0 if the group has none.
	Bulkhead bulkhead.Usage
}

// Health returns the health of the upstreams of each group.
func (g *Gateway) Health() []GroupHealth {
	all := make([]GroupHealth, 0, len(g.groups))
	now := g.now()
	for _, gr := range g.groups {
		one := GroupHealth{Name: gr.options.Name, Bulkhead: gr.bulkhead.Usage()}
		for _, u := range gr.upstreams {
			switch {
			case u.circuit.open():
				one.Open++
			case u.circuit.ejector.excludes():
				one.Ejected++
			case !u.health.usable(now):
				one.Down++
			default:
				one.Up++
			}
		}
		all = append(all, one)
	}
	return all
}

// begin counts a request of a route, until end.
func (x *exchange) begin(t *route) {
	x.route = t
	t.metrics.InFlight.Inc()
}

// end removes the request from all counts of requests in flight.
func (x *exchange) end() {
	x.finish()
	x.release()
	if x.route != nil {
		x.route.metrics.InFlight.Dec()
	}
}

// answered counts a request whose answer begins. Only the first answer counts: a failure to
// switch protocols follows an answer of 101.
func (x *exchange) answered(m *RouteMetrics, status int) {
	if x.counted {
		return
	}
	x.counted = true
	m.Seconds.Observe(time.Since(x.started).Seconds())
	if class := status / 100; class < len(m.Status) {
		m.Status[class].Inc()
	}
}

// responded counts the answer of an upstream to a request sent at the given time.
func (m *GroupMetrics) responded(status int, sent time.Time) {
	m.Seconds.Observe(time.Since(sent).Seconds())
	if class := status / 100; class > 0 && class < len(m.Status) {
		m.Status[class].Inc()
	}
}

// failed counts a request without an answer of an upstream. It blames neither the group nor
// the answer if the client has left.
func (x *exchange) failed(r *http.Request, f *failure, err error) {
	if errors.Is(r.Context().Err(), context.Canceled) && !x.clientStopped(err) {
		x.answered(&x.route.metrics, 0)
		return
	}
	x.answered(&x.route.metrics, x.statusOf(r, f))
	if x.at == nil {
		return
	}
	switch f.code {
	case codeTimeout:
		x.route.group.metrics.Timeout.Inc()
	case codeFailed:
		x.route.group.metrics.Broken.Inc()
	}
}
