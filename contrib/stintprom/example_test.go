package stintprom_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stintdev/stint/resilience/breaker"
	"github.com/stintdev/stint/resilience/client"
	"github.com/stintdev/stint/contrib/stintprom"
)

// One Metrics serves all clients of a program.
func ExampleNew() {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	registry, metrics := prometheus.NewRegistry(), stintprom.New()
	if err := registry.Register(metrics); err != nil {
		fmt.Println(err)
		return
	}
	transport, err := newTransport(metrics)
	if err != nil {
		fmt.Println(err)
		return
	}
	resp, err := (&http.Client{Transport: transport}).Get(server.URL)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	families, err := registry.Gather()
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, family := range families {
		fmt.Println(family.GetName(), len(family.GetMetric()))
	}
	// Output:
	// stint_client_attempts_total 1
	// stint_client_breaker_state 5
	// stint_client_call_duration_seconds 1
	// stint_client_calls_total 1
}

func newTransport(metrics *stintprom.Metrics) (*client.Transport, error) {
	fuse, err := breaker.New(breaker.Options{})
	if err != nil {
		return nil, err
	}
	parts := client.Chain{Name: "orders", Breaker: fuse, Observer: metrics}
	metrics.Watch(parts, nil)
	return client.New(client.Options{Chain: parts})
}
