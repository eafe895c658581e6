// Command redisleases counts in Redis, together with all other processes that use the
// same server. It decides hot keys from leases, and keeps deciding while the server
// does not answer.
package main

import (
	"cmp"
	"context"
	"log"
	"os"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/redisstore/redisopen"
)

func main() {
	if err := run(context.Background(), cmp.Or(os.Getenv("REDIS"), "redis://localhost:6379")); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, url string) error {
	store, err := redisopen.Open(ctx, url, redisopen.Options{})
	if err != nil {
		return err
	}
	defer store.Close()

	limiter, err := stint.NewLimiter(store, "api", stint.MustParseLimit("1000/h"))
	if err != nil {
		return err
	}
	limiter = limiter.With(stint.Policy{Consistency: stint.Leased, OnFailure: stint.FailLocal})
	for range 200 {
		d, err := limiter.Allow(ctx, "user:42")
		if err != nil {
			return err
		}
		log.Printf("allowed=%v remaining=%d degraded=%v", d.Allowed, d.Remaining, d.Degraded)
	}
	return nil
}
