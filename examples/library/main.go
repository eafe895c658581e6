// Command library uses the stint package alone, without a server or a network. Run
// it to see a limit of five a second and 100 an hour decide ten requests.
package main

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/stintdev/stint"
)

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	perSecond, err := stint.ParseLimit("5/s")
	if err != nil {
		return err
	}
	perHour, err := stint.Spec{Algorithm: stint.SlidingWindowCounter, Limit: 100, Window: time.Hour, Buckets: 12}.Compile()
	if err != nil {
		return err
	}
	// Both limits are charged, or neither.
	limiter, err := stint.NewLimiter(stint.NewMemory(stint.MemoryOptions{}), "api", perSecond, perHour)
	if err != nil {
		return err
	}
	for i := range 10 {
		d, err := limiter.Allow(ctx, "user:42")
		if err != nil {
			return err
		}
		report(i, d)
	}
	return limiter.Wait(ctx, "user:42") // until one more request is allowed
}

func report(i int, d stint.Decision) {
	if d.Allowed {
		fmt.Printf("%2d: allowed, %d left\n", i, d.Remaining)
		return
	}
	fmt.Printf("%2d: denied, try again in %v\n", i, d.RetryAfter)
}
