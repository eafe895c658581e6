package main

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/examples/internal/program"
	"github.com/stintdev/stint/httplimit"
)

func TestMain(m *testing.M) { program.Main(m, main) }

func TestCallsAreLimited(t *testing.T) {
	client := connect.NewClient[emptypb.Empty, emptypb.Empty](http.DefaultClient, program.Serve(t)+"/ping.v1.PingService/Ping")
	for range 3 {
		answer, err := client.CallUnary(t.Context(), connect.NewRequest(&emptypb.Empty{}))
		if err != nil {
			t.Fatal(err)
		}
		if answer.Header().Get("X-RateLimit-Limit") != "3" {
			t.Errorf("the answer's header is %v", answer.Header())
		}
	}
	_, err := client.CallUnary(t.Context(), connect.NewRequest(&emptypb.Empty{}))
	if code := connect.CodeOf(err); code != connect.CodeResourceExhausted {
		t.Fatalf("the call beyond the limit got %v", err)
	}
	if denied, ok := errors.AsType[*connect.Error](err); !ok || denied.Meta().Get("Retry-After") == "" {
		t.Errorf("the denial has no Retry-After: %v", err)
	}
}

// serve serves ping under a limit. The caller of the client that it returns sends the
// client's address in X-Forwarded-For.
func serve(t *testing.T, spec stint.Spec) *connect.Client[emptypb.Empty, emptypb.Empty] {
	t.Helper()
	compiled, err := spec.Compile()
	if err != nil {
		t.Fatal(err)
	}
	limiter, err := stint.NewLimiter(stint.NewMemory(stint.MemoryOptions{}), "ping", compiled)
	if err != nil {
		t.Fatal(err)
	}
	loopback, err := httplimit.ParsePrefixes("127.0.0.0/8", "::1")
	if err != nil {
		t.Fatal(err)
	}
	limited, err := limit(limiter, httplimit.Options{Trust: loopback})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(connect.NewUnaryHandler("/ping", ping, connect.WithInterceptors(limited)))
	t.Cleanup(server.Close)
	return connect.NewClient[emptypb.Empty, emptypb.Empty](http.DefaultClient, server.URL+"/ping")
}

func callFrom(t *testing.T, client *connect.Client[emptypb.Empty, emptypb.Empty], addr string) error {
	t.Helper()
	request := connect.NewRequest(&emptypb.Empty{})
	request.Header().Set("X-Forwarded-For", addr)
	_, err := client.CallUnary(t.Context(), request)
	return err
}

func TestIPv6ClientsCountByNetwork(t *testing.T) {
	client := serve(t, stint.PerHour(1))
	if err := callFrom(t, client, "2001:db8::1"); err != nil {
		t.Fatal(err)
	}
	if err := callFrom(t, client, "2001:db8::2"); connect.CodeOf(err) != connect.CodeResourceExhausted {
		t.Errorf("another address of the network got %v", err)
	}
	if err := callFrom(t, client, "2001:db8:1::1"); err != nil {
		t.Errorf("another network got %v", err)
	}
}

func TestLeakyBucketDelaysCalls(t *testing.T) {
	client := serve(t, stint.Spec{Algorithm: stint.LeakyBucket, Limit: 10, Window: time.Second, Queue: 5})
	start := time.Now()
	for range 3 {
		if err := callFrom(t, client, "192.0.2.1"); err != nil {
			t.Fatal(err)
		}
	}
	if took := time.Since(start); took < 190*time.Millisecond {
		t.Errorf("three calls took %v", took)
	}
}
