package remotestore_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/remotestore"
)

// Programs that use the same server, token and name share their counts. Here no server
// listens, and no guard decides without it.
func ExampleNew() {
	limit, err := stint.ParseLimit("1/h")
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = allow(context.Background(), "localhost:1", "s3cret", limit)
	var coded *stint.Error
	fmt.Println(errors.As(err, &coded) && coded.Code == stint.CodeUnavailable)
	// Output: true
}

func allow(ctx context.Context, addr, token string, limit stint.Limit) (stint.Decision, error) {
	store, err := remotestore.New(remotestore.Options{Addr: addr, Token: token})
	if err != nil {
		return stint.Decision{}, err
	}
	defer store.Close()
	limiter, err := stint.NewLimiter(store, "api", limit)
	if err != nil {
		return stint.Decision{}, err
	}
	return limiter.Allow(ctx, "user:42")
}

func ExampleParseURL() {
	options, err := remotestore.ParseURL("stint://:s3cret@10.0.0.5?timeout=500ms")
	fmt.Println(options, options.Timeout, err)
	_, err = remotestore.ParseURL("http://10.0.0.5:8081")
	fmt.Println(err)
	// Output:
	// stint://:***@10.0.0.5:8081 500ms <nil>
	// store URL: it does not begin with stint:// or stints://
}
