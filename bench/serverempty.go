package main

import (
	"context"
	"log/slog"
	"net"
	"os"

	ratelimitpb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"
)

// emptyWork is what -here calls the server that decides nothing.
const emptyWork = "empty-server"

// emptyServer answers each call at once: what grpc-go costs, and nothing else.
type emptyServer struct {
	ratelimitpb.UnimplementedRateLimitServiceServer

	answer *ratelimitpb.RateLimitResponse
}

// ShouldRateLimit gives everyone the same answer, as long as one of Stint's.
func (e *emptyServer) ShouldRateLimit(context.Context, *ratelimitpb.RateLimitRequest) (*ratelimitpb.RateLimitResponse, error) {
	return e.answer, nil
}

func newEmptyServer() *grpc.Server {
	const limit = 50_000_000
	s := grpc.NewServer()
	ratelimitpb.RegisterRateLimitServiceServer(s, &emptyServer{answer: &ratelimitpb.RateLimitResponse{
		OverallCode: ratelimitpb.RateLimitResponse_OK,
		Statuses: []*ratelimitpb.RateLimitResponse_DescriptorStatus{{
			Code:               ratelimitpb.RateLimitResponse_OK,
			CurrentLimit:       &ratelimitpb.RateLimitResponse_RateLimit{RequestsPerUnit: limit, Unit: ratelimitpb.RateLimitResponse_RateLimit_HOUR},
			LimitRemaining:     limit - 1,
			DurationUntilReset: &durationpb.Duration{Seconds: 1800},
		}},
	}})
	return s
}

// serveEmpty serves until the process is ended.
func serveEmpty() error {
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	log.Info("listening", "name", "grpc", "addr", l.Addr().String())
	log.Info("ready")
	return newEmptyServer().Serve(l)
}
