package postgresopen_test

import (
	"context"
	"fmt"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/postgresstore"
	"github.com/stintdev/stint/postgresstore/postgresopen"
)

// Programs that open the same database share their counts. In this example no server
// listens, so the guard answers: allowed, and degraded.
func ExampleOpen() {
	if err := run(context.Background(), "postgres://stint@localhost:1/limits"); err != nil {
		fmt.Println(err)
	}
	// Output: true true
}

func run(ctx context.Context, url string) error {
	store, err := postgresopen.Open(ctx, url, postgresopen.Options{})
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

// Options say more than a URL, such as credentials that change.
func ExampleNew() {
	client, err := postgresstore.ParseURL("postgres://stint@db.example/limits?durable=true")
	if err != nil {
		fmt.Println(err)
		return
	}
	client.Prefix = "blue"
	client.Credentials = func(context.Context) (username, password string, err error) { return "stint", "a token", nil }
	store, err := postgresopen.New(context.Background(), client, postgresopen.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
	fmt.Println(client)
	// Output: postgres://stint:***@db.example:5432/limits?durable=true
}
