package remoteopen_test

import (
	"context"
	"fmt"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/remotestore"
	"github.com/stintdev/stint/remotestore/remoteopen"
)

// Programs that open the same server share their counts. In this example no server listens,
// so the guard answers: allowed, and degraded.
func ExampleOpen() {
	store, err := remoteopen.Open(context.Background(), "stint://localhost:1", remoteopen.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
	limit, err := stint.ParseLimit("100/m")
	if err != nil {
		fmt.Println(err)
		return
	}
	limiter, err := stint.NewLimiter(store, "api", limit)
	if err != nil {
		fmt.Println(err)
		return
	}
	d, err := limiter.Allow(context.Background(), "user:42")
	fmt.Println(d.Allowed, d.Degraded, err)
	// Output: true true <nil>
}

// The options of the client name the server. In this example no server listens, so the guard
// answers by the failure policy of the limiter: denied.
func ExampleNew() {
	store, err := remoteopen.New(context.Background(), remotestore.Options{Addr: "localhost:1"}, remoteopen.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
	limiter, err := stint.NewLimiter(store, "api", stint.MustParseLimit("100/m"))
	if err != nil {
		fmt.Println(err)
		return
	}
	limiter = limiter.With(stint.Policy{OnFailure: stint.FailClosed})
	d, err := limiter.Allow(context.Background(), "user:42")
	fmt.Println(d.Allowed, d.Unavailable, err)
	// Output: false true <nil>
}
