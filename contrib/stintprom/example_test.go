package stintprom_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/contrib/stintprom"
	"github.com/stintdev/stint/resilience/breaker"
	"github.com/stintdev/stint/resilience/client"
)

// One Metrics serves a whole program: its limiters, its stores and its clients.
func ExampleNew() {
	registry := prometheus.NewRegistry()
	limiter, err := newLimiter(registry)
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 3 {
		_, _ = limiter.Allow(context.Background(), "user:1")
	}
	show(registry, "stint_limiter_decisions_total", "stint_keys")
	// Output:
	// stint_keys: 1
	// stint_limiter_decisions_total: 2
	// stint_limiter_decisions_total: 1
}

func newLimiter(registry prometheus.Registerer) (*stint.Limiter, error) {
	metrics, store := stintprom.New(), stint.NewMemory(stint.MemoryOptions{})
	if err := errors.Join(registry.Register(metrics), metrics.WatchStore("limits", store)); err != nil {
		return nil, err
	}
	limiter, err := stint.NewLimiter(store, "login", stint.MustParseLimit("2/h"))
	if err != nil {
		return nil, err
	}
	return limiter.WithObserver(metrics), nil
}

func show(registry *prometheus.Registry, names ...string) {
	families, err := registry.Gather()
	if err != nil {
		fmt.Println(err)
	}
	for _, family := range families {
		if !slices.Contains(names, family.GetName()) {
			continue
		}
		for _, m := range family.GetMetric() {
			fmt.Printf("%s: %v\n", family.GetName(), m.GetGauge().GetValue()+m.GetCounter().GetValue())
		}
	}
}

// The Metrics of a program are the observer of all its clients.
func ExampleMetrics_WatchClient() {
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
	if err := metrics.WatchClient(parts, nil); err != nil {
		return nil, err
	}
	return client.New(client.Options{Chain: parts})
}
