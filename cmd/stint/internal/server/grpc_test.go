package server

import (
	"context"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
)

func dialGRPC(t *testing.T, s *running) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(s.Addr("grpc").String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

func TestGRPCHealthFollowsTheServer(t *testing.T) {
	t.Parallel()
	s := run(t, Config{GRPC: "127.0.0.1:0", DrainTimeout: time.Second})
	client := healthpb.NewHealthClient(dialGRPC(t, s))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	watches := map[string]healthpb.Health_WatchClient{}
	for _, service := range []string{"", "ratelimit"} {
		watch, err := client.Watch(ctx, &healthpb.HealthCheckRequest{Service: service})
		if err != nil {
			t.Fatal(err)
		}
		watches[service] = watch
		wantHealth(t, watch, healthpb.HealthCheckResponse_SERVING)
	}
	if _, err := client.Check(ctx, &healthpb.HealthCheckRequest{Service: "other"}); status.Code(err) != codes.NotFound {
		t.Errorf("another service: %v", err)
	}
	s.stop()
	for _, watch := range watches {
		wantHealth(t, watch, healthpb.HealthCheckResponse_NOT_SERVING)
	}
}

func wantHealth(t *testing.T, watch healthpb.Health_WatchClient, want healthpb.HealthCheckResponse_ServingStatus) {
	t.Helper()
	got, err := watch.Recv()
	if err != nil || got.GetStatus() != want {
		t.Errorf("%v, %v, want %v", got, err, want)
	}
}

func TestGRPCReflectionListsItsServices(t *testing.T) {
	s := run(t, Config{GRPC: "127.0.0.1:0"})
	stream, err := reflectionpb.NewServerReflectionClient(dialGRPC(t, s)).ServerReflectionInfo(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(&reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_ListServices{}}); err != nil {
		t.Fatal(err)
	}
	answer, err := stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{}
	for _, service := range answer.GetListServicesResponse().GetService() {
		listed[service.GetName()] = true
	}
	if !listed["grpc.health.v1.Health"] || !listed["envoy.service.ratelimit.v3.RateLimitService"] {
		t.Errorf("health or the rate limit service is not listed: %v", answer)
	}
}
