// Command metrics is a web server that shows Prometheus what its limiter, its store and
// its client of another service do.
//
//	go run ./metrics
//	curl localhost:8080/; curl localhost:8080/metrics
package main

import (
	"cmp"
	"errors"
	"io"
	"log"
	"net/http"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/contrib/stintprom"
	"github.com/stintdev/stint/httplimit"
	"github.com/stintdev/stint/resilience/breaker"
	"github.com/stintdev/stint/resilience/client"
)

func main() {
	metrics := stintprom.New()
	prometheus.MustRegister(metrics)
	limited, err := newLimit(metrics)
	if err != nil {
		log.Fatal(err)
	}
	orders, err := newClient(metrics)
	if err != nil {
		log.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.Handler())
	mux.Handle("GET /", limited.Wrap(proxy(orders, cmp.Or(os.Getenv("ORDERS"), "http://localhost:8081"))))
	server := &http.Server{
		Addr:              cmp.Or(os.Getenv("ADDR"), "localhost:8080"),
		Handler:           mux,
		ReadHeaderTimeout: 10 * time.Second,
	}
	log.Fatal(server.ListenAndServe())
}

func newLimit(metrics *stintprom.Metrics) (*httplimit.Middleware, error) {
	store := stint.NewMemory(stint.MemoryOptions{})
	limiter, err := stint.NewLimiter(store, "pages", stint.MustParseLimit("3/h"))
	if err != nil {
		return nil, err
	}
	limited, err := httplimit.Limit(limiter.WithObserver(metrics), httplimit.Options{})
	return limited, errors.Join(err, metrics.WatchStore("memory", store))
}

func newClient(metrics *stintprom.Metrics) (*http.Client, error) {
	circuit, err := breaker.New(breaker.Options{})
	if err != nil {
		return nil, err
	}
	chain := client.Chain{Name: "orders", Breaker: circuit, Observer: metrics}
	transport, err := client.New(client.Options{Chain: chain, Timeout: time.Second})
	return &http.Client{Transport: transport}, errors.Join(err, metrics.WatchClient(chain, nil))
}

// proxy answers each request with what the other service answers.
func proxy(c *http.Client, url string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		request, err := http.NewRequestWithContext(r.Context(), http.MethodGet, url, nil)
		if err != nil {
			http.Error(w, "the URL of the orders is wrong", http.StatusInternalServerError)
			return
		}
		response, err := c.Do(request)
		if err != nil {
			http.Error(w, "the orders cannot be reached", http.StatusBadGateway)
			return
		}
		defer response.Body.Close()
		_, _ = io.Copy(w, response.Body)
	})
}
