package adaptive_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/resilience/adaptive"
)

// A handler that gets only as many concurrent requests as it can answer in time.
func ExampleMiddleware() {
	gate, err := adaptive.New(adaptive.Options{Algorithm: &adaptive.AIMD{Timeout: 300 * time.Millisecond}})
	if err != nil {
		fmt.Println(err)
		return
	}
	hello := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("hello")) })
	server := httptest.NewServer(adaptive.Middleware{Gate: gate}.Wrap(hello))
	defer server.Close()
	resp, err := http.Get(server.URL)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	fmt.Println(resp.StatusCode, "of a limit of", gate.Usage().Limit)
	// Output: 200 of a limit of 20
}

// A client that sends less to a server that refuses.
func ExampleThrottle() {
	throttle, err := adaptive.NewThrottle(adaptive.ThrottleOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 9 {
		if call, ok := throttle.Begin(); ok {
			call.End(adaptive.Failure)
		}
	}
	fmt.Printf("%.1f of the next are not sent\n", throttle.Probability())
	// Output: 0.9 of the next are not sent
}

// A rate that is halved when the machine is fully busy. The usage of a key is kept when
// the numbers of its limit change.
func ExampleCPU_Scale() {
	cpu, err := adaptive.NewCPU(adaptive.CPUOptions{Load: func() (float64, error) { return 0.9, nil }})
	if err != nil {
		fmt.Println(err)
		return
	}
	limit, err := stint.Spec{Limit: cpu.Scale(1000), Window: time.Second}.Compile()
	if err != nil {
		fmt.Println(err)
		return
	}
	store := stint.NewMemory(stint.MemoryOptions{})
	d, err := store.Take(context.Background(), stint.Claim{Key: "user:42", Limit: limit, Cost: 1})
	fmt.Println(d.Limit, err)
	// Output: 750 <nil>
}
