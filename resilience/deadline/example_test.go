package deadline_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/stintdev/stint/resilience/deadline"
)

// The time that a client sends arrives in the handler's context.
func Example() {
	hello := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		end, ok := r.Context().Deadline()
		fmt.Println(ok, time.Until(end) <= time.Second)
	})
	server := httptest.NewServer(deadline.Middleware{Max: 30 * time.Second}.Wrap(hello))
	defer server.Close()

	client := &http.Client{Transport: &deadline.Transport{}}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	resp, err := client.Do(req)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	// Output: true true
}

// One value configures both sides.
func ExampleTimeouts() {
	t := deadline.Timeouts{Total: 10 * time.Second}
	server, client := t.Server(http.NotFoundHandler()), t.Client(nil)
	fmt.Println(client.Timeout, server.WriteTimeout, server.ReadHeaderTimeout, server.IdleTimeout)
	// Output: 10s 10s 5s 1m30s
}
