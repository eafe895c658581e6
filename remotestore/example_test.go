package remotestore_test

import (
	"context"
	"fmt"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/guard"
	"github.com/stintdev/stint/internal/server"
	"github.com/stintdev/stint/remotestore"
)

// Two programs share the counts of one server. The example starts a server in its own
// process; in production, run stint serve.
func Example() {
	addr, stop := startServer()
	defer stop()
	limit, err := stint.ParseLimit("1/h")
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, program := range []string{"one", "two"} {
		d, err := allow(context.Background(), addr, "", limit)
		fmt.Println(program, d.Allowed, err)
	}
	// Output:
	// one true <nil>
	// two false <nil>
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

// startServer serves gRPC on a free port of this machine.
func startServer() (addr string, stop func()) {
	s, err := server.New(server.Config{Store: stint.NewMemory(stint.MemoryOptions{MaxKeys: 1000}), GRPC: "127.0.0.1:0"})
	if err != nil {
		panic(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	<-s.Opened()
	return s.Addr("grpc").String(), func() { cancel(); <-ended }
}
