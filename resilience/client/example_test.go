package client_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/resilience/breaker"
	"github.com/stintdev/stint/resilience/bulkhead"
	"github.com/stintdev/stint/resilience/client"
	"github.com/stintdev/stint/resilience/deadline"
	"github.com/stintdev/stint/resilience/retry"
	"github.com/stintdev/stint/resilience/retrybudget"
)

// All parts together. Each is optional.
func ExampleNew() {
	calls := 0
	orders := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if calls++; calls == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer orders.Close()

	transport, err := newTransport()
	if err != nil {
		fmt.Println(err)
		return
	}
	resp, err := (&http.Client{Transport: transport}).Get(orders.URL)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	fmt.Println(resp.StatusCode, "after", calls, "attempts")
	// Output: 200 after 2 attempts
}

func newTransport() (*client.Transport, error) {
	retries, err := retrybudget.New(retrybudget.Options{})
	if err != nil {
		return nil, err
	}
	places, err := bulkhead.New(bulkhead.Options{Limit: 20, Queue: 40, MaxWait: time.Second})
	if err != nil {
		return nil, err
	}
	fuse, err := breaker.New(breaker.Options{})
	if err != nil {
		return nil, err
	}
	limit, err := stint.Spec{Algorithm: stint.LeakyBucket, Limit: 100, Window: time.Second, Queue: 200}.Compile()
	if err != nil {
		return nil, err
	}
	limiter, err := stint.NewLimiter(stint.NewMemory(stint.MemoryOptions{}), "orders", limit)
	if err != nil {
		return nil, err
	}
	return client.New(client.Options{
		Chain: client.Chain{
			Name:     "orders",
			Bulkhead: places,
			Breaker:  fuse,
			Limiter:  limiter,
		},
		Timeout:  10 * time.Second,
		Retry:    &retry.Options{Base: time.Millisecond, Budget: retries},
		Deadline: &deadline.Transport{},
	})
}
