package budget_test

import (
	"fmt"

	"github.com/stintdev/stint/resilience/budget"
)

// Of a hundred requests to a server that is down, ten are repeated, not all.
func Example() {
	b, err := budget.New(budget.Options{Share: 0.1, PerSecond: budget.NoShare})
	if err != nil {
		fmt.Println(err)
		return
	}
	sent := 0
	for range 100 {
		b.Request()
		sent++
		if b.Retry() { // before the wait, so that who gets none need not wait
			sent++
		}
	}
	fmt.Println(sent, "sent,", b.Usage().Retries, "of them retries")
	// Output: 110 sent, 10 of them retries
}
