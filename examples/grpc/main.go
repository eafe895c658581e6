// Command grpc is a gRPC server that allows three calls an hour from each client
// address, and a client of it. The client waits for its own limit before each call, and
// reads from a denial when to try again.
package main

import (
	"context"
	"fmt"
	"log"
	"net"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/grpclimit"
)

func main() {
	listener, err := net.Listen("tcp", "localhost:0")
	if err != nil {
		log.Fatal(err)
	}
	server, err := newServer()
	if err != nil {
		log.Fatal(err)
	}
	go func() { log.Fatal(server.Serve(listener)) }()
	if err := call(context.Background(), listener.Addr().String()); err != nil {
		log.Fatal(err)
	}
}

func newServer() (*grpc.Server, error) {
	limiter, err := stint.NewLimiter(stint.NewMemory(stint.MemoryOptions{}), "health", stint.MustParseLimit("3/h"))
	if err != nil {
		return nil, err
	}
	limited, err := grpclimit.Limit(limiter, grpclimit.Options{})
	if err != nil {
		return nil, err
	}
	server := grpc.NewServer(limited.Options()...)
	healthpb.RegisterHealthServer(server, health.NewServer())
	return server, nil
}

func call(ctx context.Context, addr string) error {
	limiter, err := stint.NewLimiter(stint.NewMemory(stint.MemoryOptions{}), "calls", stint.MustParseLimit("100/s"))
	if err != nil {
		return err
	}
	limited, err := grpclimit.NewClient(limiter, grpclimit.ClientOptions{})
	if err != nil {
		return err
	}
	options := append(limited.Options(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	conn, err := grpc.NewClient(addr, options...)
	if err != nil {
		return err
	}
	defer conn.Close()
	for range 4 {
		answer, err := healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{})
		fmt.Println(answer.GetStatus(), status.Code(err), "try again in", retryDelay(err))
	}
	return nil
}

// retryDelay returns the time that a denial asks its client to wait.
func retryDelay(err error) time.Duration {
	for _, detail := range status.Convert(err).Details() {
		if retry, ok := detail.(*errdetails.RetryInfo); ok {
			return retry.GetRetryDelay().AsDuration()
		}
	}
	return 0
}
