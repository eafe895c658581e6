//go:build linux

package monitoringtest

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	prom "github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/stintdev/stint/contrib/stintprom"
	"github.com/stintdev/stint/resilience/breaker"
	"github.com/stintdev/stint/resilience/bulkhead"
	"github.com/stintdev/stint/resilience/client"
	"github.com/stintdev/stint/resilience/retry"
	"github.com/stintdev/stint/resilience/retrybudget"
)

// application starts a program with the client library, whose dependency fails half of
// the calls and whose breaker is open now and then. It returns its address.
func application(t *testing.T) string {
	t.Helper()
	var calls atomic.Int64
	dependency := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if calls.Add(1)%2 == 0 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	t.Cleanup(dependency.Close)
	fuse, err1 := breaker.New(breaker.Options{})
	places, err2 := bulkhead.New(bulkhead.Options{Limit: 3})
	budget, err3 := retrybudget.New(retrybudget.Options{})
	metrics, registry := stintprom.New(), prom.NewRegistry()
	chain := client.Chain{Name: "orders", Bulkhead: places, Breaker: fuse, Observer: metrics}
	transport, err4 := client.New(client.Options{Chain: chain, Retry: &retry.Options{Base: time.Millisecond, Budget: budget}})
	if err := errors.Join(err1, err2, err3, err4, metrics.WatchClient(chain, budget), registry.Register(metrics)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(transport.CloseIdleConnections)
	repeat(t, func(n int) {
		switch n % 20 {
		case 0:
			fuse.ForceOpen()
		case 1:
			fuse.Reset()
		}
		if resp, err := (&http.Client{Transport: transport}).Get(dependency.URL); err == nil {
			_ = resp.Body.Close()
		}
	})
	server := httptest.NewServer(promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}
