package redisstore_test

import (
	"context"
	"fmt"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/guard"
	"github.com/stintdev/stint/redisstore"
)

// Programs that share a server share their counts. In this example no server listens, so
// the guard answers: allowed, and degraded.
func Example() {
	if err := allowTogether(context.Background(), "localhost:1"); err != nil {
		fmt.Println(err)
	}
	// Output: true true
}

func allowTogether(ctx context.Context, server string) error {
	store, err := redisstore.New(redisstore.Options{Addrs: []string{server}})
	if err != nil {
		return err
	}
	defer store.Close()
	guarded, err := guard.New(store, guard.Options{})
	if err != nil {
		return err
	}
	defer guarded.Close()
	limit, err := stint.ParseLimit("100/m")
	if err != nil {
		return err
	}
	limiter, err := stint.NewLimiter(guarded, "api", limit)
	if err != nil {
		return err
	}
	d, err := limiter.Allow(ctx, "user:42")
	if err != nil {
		return err
	}
	fmt.Println(d.Allowed, d.Degraded)
	return nil
}
