package remotestore_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/guard"
	"github.com/stintdev/stint/remotestore"
)

// Programs that use the same server, token and name share their counts. Here no server
// listens, and no guard decides without it.
func Example() {
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

// A guard decides while the server cannot be reached. Here no server listens, so the
// claim is allowed and the decision degraded.
func Example_guarded() {
	options, err := remotestore.ParseURL("stint://localhost:1?timeout=100ms")
	if err != nil {
		fmt.Println(err)
		return
	}
	store, err := remotestore.New(options)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
	guarded, err := guard.New(store, guard.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer guarded.Close()
	limit, err := stint.ParseLimit("100/m")
	if err != nil {
		fmt.Println(err)
		return
	}
	limiter, err := stint.NewLimiter(guarded, "api", limit)
	if err != nil {
		fmt.Println(err)
		return
	}
	d, err := limiter.Allow(context.Background(), "user:42")
	fmt.Println(d.Allowed, d.Degraded, err)
	// Output: true true <nil>
}
