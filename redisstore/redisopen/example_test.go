package redisopen_test

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/guard"
	"github.com/stintdev/stint/layered"
	"github.com/stintdev/stint/redisstore"
	"github.com/stintdev/stint/redisstore/redisopen"
)

// Programs that open the same servers share their counts. In this example no server
// listens, so the guard answers: allowed, and degraded.
func ExampleOpen() {
	if err := run(context.Background(), "redis://localhost:1/0"); err != nil {
		fmt.Println(err)
	}
	// Output: true true
}

func run(ctx context.Context, url string) error {
	store, err := redisopen.Open(ctx, url, redisopen.Options{})
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

// The client has a key prefix of its own and credentials that change. The guard allows
// each call 20 ms, and Open returns once the servers serve checks.
func ExampleNew() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	store, err := openShop(ctx, "rediss-cluster://localhost:1", slog.New(slog.DiscardHandler), func(context.Context) (string, string, error) {
		return "shop", "a token of the cloud's IAM", nil
	})
	if err != nil {
		fmt.Println("no server listens")
		return
	}
	defer store.Close()
	// Output: no server listens
}

func openShop(ctx context.Context, url string, log *slog.Logger, token func(context.Context) (string, string, error)) (*layered.Store, error) {
	client, err := redisstore.ParseURL(url)
	if err != nil {
		return nil, err
	}
	client.Prefix, client.Credentials = "shop", token
	return redisopen.New(ctx, client, redisopen.Options{
		Logger: log,
		Guard:  guard.Options{Deadline: 20 * time.Millisecond},
		Wait:   true,
	})
}
