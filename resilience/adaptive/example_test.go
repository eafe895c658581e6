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
func ExampleNewThrottle() {
	throttle, err := adaptive.NewThrottle(adaptive.ThrottleOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 9 {
		if call, ok := throttle.Begin(); ok {
			call.Failure()
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

// Calls of any protocol go through a gate by Do, or by Begin and the end of the Call.
func ExampleNew() {
	gate, err := adaptive.New(adaptive.Options{Min: 1, Max: 100})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	answer, err := adaptive.Do(ctx, gate, func(context.Context) (string, error) { return "hello", nil })
	fmt.Println(answer, err, gate.Usage().Admitted)
	// Output: hello <nil> 1
}

// A gate whose limit is 40 while the machine is not busy. In a container, set Load to
// CgroupCPU(nil, nil).
func ExampleNewCPU() {
	busy := 0.5
	cpu, err := adaptive.NewCPU(adaptive.CPUOptions{Full: 40, Load: func() (float64, error) { return busy, nil }})
	if err != nil {
		fmt.Println(err)
		return
	}
	gate, err := adaptive.New(adaptive.Options{Algorithm: cpu})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(cpu.Load(), gate.Usage().Limit)
	// Output: 0.5 40
}
