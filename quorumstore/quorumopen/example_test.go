package quorumopen_test

import (
	"context"
	"fmt"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/quorumstore"
	"github.com/stintdev/stint/quorumstore/quorumopen"
)

// Programs that open the same servers share their counts. In this example no server
// listens, so the guard answers: allowed, and degraded.
func ExampleOpen() {
	if err := run(context.Background(), "redis-quorum://localhost:1,localhost:2,localhost:3"); err != nil {
		fmt.Println(err)
	}
	// Output: true true
}

func run(ctx context.Context, url string) error {
	store, err := quorumopen.Open(ctx, url, quorumopen.Options{})
	if err != nil {
		return err
	}
	defer store.Close()
	limit, err := stint.ParseLimit("100/m")
	if err != nil {
		return err
	}
	limiter, err := stint.NewLimiter(store, "api", limit)
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

// The client has a key prefix of its own.
func ExampleNew() {
	store, err := quorumopen.New(context.Background(), quorumstore.Options{Servers: []string{"localhost:1", "localhost:2", "localhost:3"}, Prefix: "shop"}, quorumopen.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
	fmt.Println(store.Base())
	// Output: redis-quorum://localhost:1,localhost:2,localhost:3
}
