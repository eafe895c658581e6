// Command resilientclient calls a service that fails now and then. Its HTTP client
// retries within a budget, stops calling while the service is down, bounds the calls at
// once, sends at most 50 requests a second, and tells the service how much time is left.
package main

import (
	"cmp"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/resilience/breaker"
	"github.com/stintdev/stint/resilience/bulkhead"
	"github.com/stintdev/stint/resilience/client"
	"github.com/stintdev/stint/resilience/deadline"
	"github.com/stintdev/stint/resilience/retry"
	"github.com/stintdev/stint/resilience/retrybudget"
)

func main() {
	transport, err := newTransport()
	if err != nil {
		log.Fatal(err)
	}
	orders := &http.Client{Transport: transport}
	for range 5 {
		if err := get(orders, cmp.Or(os.Getenv("ORDERS"), "http://localhost:8080")); err != nil {
			log.Print(err)
		}
	}
}

// newTransport returns the parts of the client. All clients of one service share them.
func newTransport() (*client.Transport, error) {
	budget, err := retrybudget.New(retrybudget.Options{})
	if err != nil {
		return nil, err
	}
	circuit, err := breaker.New(breaker.Options{})
	if err != nil {
		return nil, err
	}
	places, err := bulkhead.New(bulkhead.Options{Limit: 20, Queue: 40, MaxWait: time.Second})
	if err != nil {
		return nil, err
	}
	limiter, err := stint.NewLimiter(stint.NewMemory(stint.MemoryOptions{}), "orders", stint.MustParseLimit("50/s"))
	if err != nil {
		return nil, err
	}
	return client.New(client.Options{
		Chain:    client.Chain{Name: "orders", Bulkhead: places, Breaker: circuit, Limiter: limiter},
		Timeout:  10 * time.Second,
		Retry:    &retry.Options{Budget: budget},
		Deadline: &deadline.Transport{},
	})
}

func get(c *http.Client, url string) error {
	response, err := c.Get(url)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	fmt.Println(response.Status, string(body))
	return err
}
