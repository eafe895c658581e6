package clientmetrics_test

import (
	"fmt"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stintdev/stint/resilience/breaker"
	"github.com/stintdev/stint/resilience/client"
	"github.com/stintdev/stint/resilience/clientmetrics"
)

// One Metrics for all clients of a program.
func Example() {
	metrics := clientmetrics.New()
	if err := prometheus.Register(metrics); err != nil {
		fmt.Println(err)
		return
	}
	fuse, err := breaker.New(breaker.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	parts := client.Parts{Name: "orders", Breaker: fuse, Observer: metrics}
	metrics.Watch(parts, nil)
	transport, err := client.New(client.Options{Parts: parts})
	if err != nil {
		fmt.Println(err)
		return
	}
	orders := &http.Client{Transport: transport}
	fmt.Println(orders.Timeout)
	// Output: 0s
}
