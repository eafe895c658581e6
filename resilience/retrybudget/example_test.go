package retrybudget_test

import (
	"fmt"

	"github.com/stintdev/stint/resilience/retrybudget"
)

// A hundred requests to a server that is down cause ten retries, not a hundred.
func ExampleNew() {
	b, err := retrybudget.New(retrybudget.Options{Share: 0.1, PerSecond: retrybudget.NoShare})
	if err != nil {
		fmt.Println(err)
		return
	}
	sent := 0
	for range 100 {
		b.Request()
		sent++
		if b.Retry() { // before the wait, so that a refused caller does not wait
			sent++
		}
	}
	fmt.Println(sent, "sent,", b.Usage().Retries, "of them retries")
	// Output: 110 sent, 10 of them retries
}
