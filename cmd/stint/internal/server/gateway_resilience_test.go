package server

import (
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/stintdev/stint/cmd/stint/internal/gateway"
	"github.com/stintdev/stint/httplimit"
	"github.com/stintdev/stint/resilience/breaker"
	"github.com/stintdev/stint/resilience/bulkhead"
)

// A request that is sent again is charged once.
func TestGatewayChargesARetriedRequestOnce(t *testing.T) {
	var asked atomic.Int64
	group := groupOf(t, "api", upstreamOf(t, func(w http.ResponseWriter, _ *http.Request) {
		if asked.Add(1)%3 != 0 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})[0].String())
	group.Retry = &gateway.RetryOptions{Attempts: 3}
	s := run(t, Config{Rules: rulesFile(t, orders), Gateway: "127.0.0.1:0", GatewayGroups: []gateway.GroupOptions{group}})
	for i, want := range []struct {
		status    int
		remaining string
	}{{http.StatusOK, "1"}, {http.StatusOK, "0"}, {http.StatusTooManyRequests, "0"}} {
		got := s.get("gateway", "/v1/orders", "X-API-Key", "k")
		if got.status != want.status || got.header.Get("X-RateLimit-Remaining") != want.remaining {
			t.Errorf("request %d: got %d with %s remaining, want %v", i, got.status, got.header.Get("X-RateLimit-Remaining"), want)
		}
	}
	if asked.Load() != 6 {
		t.Errorf("the upstream got %d requests, want 6", asked.Load())
	}
	s.wantMetric(`stint_gateway_retries_total{result="sent",upstream="api"} 4`, true)
}

// The clients of a trusted proxy count each for themselves, and a client cannot pose as
// many.
func TestGatewayOpensACircuitForClientsBehindAProxy(t *testing.T) {
	for _, c := range []struct {
		name    string
		trusted []string
		want    int
	}{{"trusted", []string{"127.0.0.1"}, http.StatusServiceUnavailable}, {"notTrusted", nil, http.StatusInternalServerError}} {
		t.Run(c.name, func(t *testing.T) {
			group := groupOf(t, "api", upstreamOf(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) })[0].String())
			group.Breaker = &breaker.Options{MinimumCalls: 4}
			group.Bulkhead = &bulkhead.Options{Limit: 10}
			trusted, err := httplimit.ParsePrefixes(c.trusted...)
			if err != nil {
				t.Fatal(err)
			}
			s := run(t, Config{Gateway: "127.0.0.1:0", TrustedProxies: trusted, GatewayGroups: []gateway.GroupOptions{group}})
			last := 0
			for _, client := range []string{"10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5", "10.0.0.6", "10.0.0.7"} {
				last = s.get("gateway", "/", "X-Forwarded-For", client).status
			}
			if last != c.want {
				t.Errorf("got %d, want %d", last, c.want)
			}
			open := c.want == http.StatusServiceUnavailable
			s.wantMetric(`stint_gateway_circuit_openings_total{upstream="api"} 1`, open)
			s.wantMetric(`stint_gateway_upstream_servers{state="open",upstream="api"} 1`, open)
			s.wantMetric(`stint_gateway_bulkhead_in_flight{upstream="api"} 0`, true)
		})
	}
}
