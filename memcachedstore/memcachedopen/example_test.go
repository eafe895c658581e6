package memcachedopen_test

import (
	"context"
	"fmt"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/memcachedstore"
	"github.com/stintdev/stint/memcachedstore/memcachedopen"
)

// Programs that open the same servers share their counts. In this example no server
// listens, so the guard answers: allowed, and degraded.
func ExampleOpen() {
	if err := run(context.Background(), "memcached://localhost:1"); err != nil {
		fmt.Println(err)
	}
	// Output: true true
}

func run(ctx context.Context, url string) error {
	store, err := memcachedopen.Open(ctx, url, memcachedopen.Options{})
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
	store, err := memcachedopen.New(context.Background(), memcachedstore.Options{Servers: []string{"localhost:1"}, Prefix: "shop"}, memcachedopen.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
	fmt.Println(store.Base())
	// Output: memcached://localhost:1
}
