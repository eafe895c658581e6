package grpclimit_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/grpclimit"
	"github.com/stintdev/stint/httplimit"
)

// This server allows 100 calls a minute from each client address.
func Example() {
	limit, err := stint.PerMinute(100).Compile()
	if err != nil {
		log.Fatal(err)
	}
	limiter, err := stint.NewLimiter(stint.NewMemory(stint.MemoryOptions{}), "orders", limit)
	if err != nil {
		log.Fatal(err)
	}
	limited, err := grpclimit.Limit(limiter, grpclimit.Options{})
	if err != nil {
		log.Fatal(err)
	}
	server := grpc.NewServer(limited.Options()...)

	client, stop := connect(server)
	defer stop()
	var header metadata.MD
	_, err = client.Check(context.Background(), &healthpb.HealthCheckRequest{}, grpc.Header(&header))
	fmt.Println(status.Code(err), header.Get("ratelimit-policy"), header.Get("x-ratelimit-remaining"))
	// Output: OK ["orders";q=100;w=60] [99]
}

// This server counts calls by a key that a function returns: the tenant in the
// metadata.
func ExampleLimit_key() {
	limiter := newLimiter("tenants", stint.Spec{Limit: 1, Window: time.Minute})
	tenant := func(c *grpclimit.Call) (string, error) { return c.Metadata("x-tenant"), nil }
	limited, err := grpclimit.Limit(limiter, grpclimit.Options{Key: tenant})
	if err != nil {
		log.Fatal(err)
	}
	server := grpc.NewServer(limited.Options()...)

	client, stop := connect(server)
	defer stop()
	for _, name := range []string{"a", "a", "b"} {
		ctx := metadata.AppendToOutgoingContext(context.Background(), "x-tenant", name)
		_, err := client.Check(ctx, &healthpb.HealthCheckRequest{})
		fmt.Println(name, status.Code(err))
		for _, detail := range status.Convert(err).Details() {
			if retry, ok := detail.(*errdetails.RetryInfo); ok {
				fmt.Println("come back after", retry.GetRetryDelay().AsDuration())
			}
		}
	}
	// Output:
	// a OK
	// a ResourceExhausted
	// come back after 1m0s
	// b OK
}

// A user may make two calls a minute, and all users of a tenant together three. A call is
// charged under both keys or under neither.
func ExampleLimit_joint() {
	store := stint.NewMemory(stint.MemoryOptions{})
	users, err := stint.NewLimiter(store, "users", stint.MustParseLimit("2/m"))
	if err != nil {
		log.Fatal(err)
	}
	tenants, err := stint.NewLimiter(store, "tenants", stint.MustParseLimit("3/m"))
	if err != nil {
		log.Fatal(err)
	}
	both, err := stint.Join(users, tenants)
	if err != nil {
		log.Fatal(err)
	}
	limited, err := grpclimit.Limit(both, grpclimit.Options{
		Parts: []grpclimit.Part{{By: []string{"api_key"}}, {By: []string{"header:x-tenant"}}},
	})
	if err != nil {
		log.Fatal(err)
	}
	client, stop := connect(grpc.NewServer(limited.Options()...))
	defer stop()
	for _, user := range []string{"ann", "ann", "ann", "bob", "bob"} {
		ctx := metadata.AppendToOutgoingContext(context.Background(), "x-api-key", user, "x-tenant", "acme")
		_, err := client.Check(ctx, &healthpb.HealthCheckRequest{})
		fmt.Println(user, status.Code(err))
	}
	// Output:
	// ann OK
	// ann OK
	// ann ResourceExhausted
	// bob OK
	// bob ResourceExhausted
}

// This example uses most options: API keys of a trusted proxy's clients, counts by
// method, calls that cost their size, a limit of their own for stream messages, errors
// that are logged, and calls that pass when no decision can be made.
func ExampleOptions() {
	messages, err := grpclimit.NewCounter(newLimiter("messages", stint.Spec{Limit: 10, Window: time.Second}), grpclimit.Options{})
	if err != nil {
		log.Fatal(err)
	}
	limited, err := grpclimit.Limit(newLimiter("weight", stint.Spec{Limit: 1000, Window: time.Hour}), grpclimit.Options{
		By: []string{"api_key", "method"},
		Cost: func(c *grpclimit.Call) int64 {
			r, _ := c.Message.(*healthpb.HealthCheckRequest) // nil when a stream opens
			return 1 + int64(len(r.GetService()))
		},
		Dialect:        httplimit.IETF,
		Jitter:         0.2,
		MessageDecider: messages,
		Trust:          []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")},
		Logger:         slog.Default(),
		OnError:        func(*grpclimit.Call, error) error { return nil },
	})
	if err != nil {
		log.Fatal(err)
	}
	client, stop := connect(grpc.NewServer(limited.Options()...))
	defer stop()
	var header metadata.MD
	_, err = client.Check(context.Background(), &healthpb.HealthCheckRequest{}, grpc.Header(&header))
	fmt.Println(status.Code(err), header.Get("ratelimit-policy"), header.Get("ratelimit"))
	// Output: OK ["weight";q=1000;w=3600] ["weight";r=999;t=4]
}

// A server may change the status of a denial. The details of the default status, which
// have the retry time, go with it here.
func ExampleLimit_onDenied() {
	limited, err := grpclimit.Limit(newLimiter("calls", stint.Spec{Limit: 1, Window: time.Minute}), grpclimit.Options{
		OnDenied: func(_ *grpclimit.Call, _ *httplimit.Answer, denial *status.Status) error {
			p := denial.Proto()
			p.Message = "slow down: " + denial.Message()
			return status.ErrorProto(p)
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	client, stop := connect(grpc.NewServer(limited.Options()...))
	defer stop()
	for range 2 {
		_, err := client.Check(context.Background(), &healthpb.HealthCheckRequest{})
		fmt.Println(err)
	}
	// Output:
	// <nil>
	// rpc error: code = ResourceExhausted desc = slow down: rate limit calls of 1 per 1m0s exceeded
}

// A counter is the decider of one limiter. This server wraps it, so that health checks
// are not counted.
func ExampleNewCounter() {
	counter, err := grpclimit.NewCounter(newLimiter("calls", stint.Spec{Limit: 1, Window: time.Minute}), grpclimit.Options{})
	if err != nil {
		log.Fatal(err)
	}
	limited, err := grpclimit.New(grpclimit.DeciderFunc(func(ctx context.Context, c *grpclimit.Call) (httplimit.Answer, error) {
		if strings.HasPrefix(c.Method, "/grpc.health.") {
			return httplimit.Answer{Decision: stint.Decision{Allowed: true}, Binding: -1}, nil
		}
		return counter.Decide(ctx, c)
	}), grpclimit.Options{})
	if err != nil {
		log.Fatal(err)
	}
	client, stop := connect(grpc.NewServer(limited.Options()...))
	defer stop()
	for range 2 {
		_, err := client.Check(context.Background(), &healthpb.HealthCheckRequest{})
		fmt.Println(status.Code(err))
	}
	// Output:
	// OK
	// OK
}

// A decider chooses the limiter of a call: here by the method.
func ExampleNew() {
	reads, err := grpclimit.NewCounter(newLimiter("reads", stint.Spec{Limit: 2, Window: time.Minute}), grpclimit.Options{})
	if err != nil {
		log.Fatal(err)
	}
	writes, err := grpclimit.NewCounter(newLimiter("writes", stint.Spec{Limit: 1, Window: time.Minute}), grpclimit.Options{})
	if err != nil {
		log.Fatal(err)
	}
	limited, err := grpclimit.New(grpclimit.DeciderFunc(func(ctx context.Context, c *grpclimit.Call) (httplimit.Answer, error) {
		if strings.HasSuffix(c.Method, "/Check") {
			return reads.Decide(ctx, c)
		}
		return writes.Decide(ctx, c)
	}), grpclimit.Options{})
	if err != nil {
		log.Fatal(err)
	}
	client, stop := connect(grpc.NewServer(limited.Options()...))
	defer stop()
	for range 3 {
		_, err := client.Check(context.Background(), &healthpb.HealthCheckRequest{})
		fmt.Println(status.Code(err))
	}
	// Output:
	// OK
	// OK
	// ResourceExhausted
}

// This client sends at most two calls a minute, and refuses further calls instead of
// delaying them.
func ExampleNewClient() {
	limiter := newLimiter("ours", stint.Spec{Limit: 2, Window: time.Minute})
	c, err := grpclimit.NewClient(limiter, grpclimit.ClientOptions{Refuse: true})
	if err != nil {
		log.Fatal(err)
	}

	client, stop := connect(grpc.NewServer(), c.Options()...)
	defer stop()
	for range 3 {
		_, err := client.Check(context.Background(), &healthpb.HealthCheckRequest{})
		fmt.Println(status.Code(err))
	}
	// Output:
	// OK
	// OK
	// ResourceExhausted
}

// connect serves the health service on the loopback interface.
func connect(server *grpc.Server, opts ...grpc.DialOption) (client healthpb.HealthClient, stop func()) {
	healthpb.RegisterHealthServer(server, health.NewServer())
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	go server.Serve(l)
	conn, err := grpc.NewClient(l.Addr().String(), append(opts, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		log.Fatal(err)
	}
	return healthpb.NewHealthClient(conn), func() { conn.Close(); server.Stop() }
}

func newLimiter(name string, specs ...stint.Spec) *stint.Limiter {
	// The clock is fixed, so that the examples always print the same.
	now := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	var limits []stint.Limit
	for _, spec := range specs {
		limit, err := spec.Compile()
		if err != nil {
			log.Fatal(err)
		}
		limits = append(limits, limit)
	}
	limiter, err := stint.NewLimiter(stint.NewMemory(stint.MemoryOptions{Clock: func() time.Time { return now }}), name, limits...)
	if err != nil {
		log.Fatal(err)
	}
	return limiter
}
