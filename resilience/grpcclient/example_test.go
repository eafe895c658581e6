package grpcclient_test

import (
	"context"
	"fmt"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/stintdev/stint/resilience/breaker"
	"github.com/stintdev/stint/resilience/client"
	"github.com/stintdev/stint/resilience/grpcclient"
	"github.com/stintdev/stint/resilience/retry"
	"github.com/stintdev/stint/resilience/retrybudget"
)

// A connection whose calls may all be retried within a budget, while the breaker is
// closed.
func ExampleNew() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	server := grpc.NewServer()
	healthpb.RegisterHealthServer(server, health.NewServer())
	go func() { _ = server.Serve(listener) }()
	defer server.Stop()

	parts, err := newClient()
	if err != nil {
		fmt.Println(err)
		return
	}
	conn, err := grpc.NewClient(listener.Addr().String(), append(parts.Options(), grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer conn.Close()
	answer, err := healthpb.NewHealthClient(conn).Check(context.Background(), &healthpb.HealthCheckRequest{})
	fmt.Println(answer.GetStatus(), err)
	// Output: SERVING <nil>
}

func newClient() (*grpcclient.Client, error) {
	retries, err := retrybudget.New(retrybudget.Options{})
	if err != nil {
		return nil, err
	}
	fuse, err := breaker.New(breaker.Options{})
	if err != nil {
		return nil, err
	}
	return grpcclient.New(grpcclient.Options{
		Chain:      client.Chain{Name: "health", Breaker: fuse},
		Timeout:    10 * time.Second,
		Retry:      &retry.Options{Budget: retries},
		Repeatable: func(context.Context, string) bool { return true },
	})
}
