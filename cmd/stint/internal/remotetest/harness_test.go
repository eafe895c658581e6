package remotetest

import (
	"context"
	"testing"
	"time"

	"github.com/stintdev/stint/remotestore"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/cmd/stint/internal/server"
)

// maxClaims is the number of claims that remotestore sends in one request, and
// maxInFlight the number of requests that it has at the server at a time.
const (
	maxClaims   = 500
	maxInFlight = 2
)

// patience bounds every wait of the tests.
const patience = 20 * time.Second

// serve starts a server on free ports of this machine and returns the address of its
// gRPC listener.
func serve(t testing.TB, config server.Config) (addr string) {
	t.Helper()
	if config.GRPC == "" {
		config.GRPC = "127.0.0.1:0"
	}
	s, err := server.New(config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	select {
	case <-s.Opened():
	case <-time.After(patience):
		t.Fatal("the server does not open")
	}
	return s.Addr("grpc").String()
}

// open returns a store that is closed with the test.
func open(t testing.TB, o remotestore.Options) *remotestore.Store {
	t.Helper()
	s, err := remotestore.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// remote returns a store that uses a server of its own.
func remote(t testing.TB, clock func() time.Time) *remotestore.Store {
	t.Helper()
	memory := stint.NewMemory(stint.MemoryOptions{MaxKeys: 1_000_000, Clock: clock})
	t.Cleanup(func() { _ = memory.Close() })
	return open(t, remotestore.Options{Addr: serve(t, server.Config{Store: memory}), Timeout: patience})
}

func mustLimit(t testing.TB, text string) stint.Limit {
	t.Helper()
	limit, err := stint.ParseLimit(text)
	if err != nil {
		t.Fatal(err)
	}
	return limit
}

// counted is a limit that does not refill during a test.
func counted(t testing.TB, n int64) stint.Limit {
	t.Helper()
	limit, err := stint.Spec{Algorithm: stint.FixedWindow, Limit: n, Window: 400 * 24 * time.Hour}.Compile()
	if err != nil {
		t.Fatal(err)
	}
	return limit
}
