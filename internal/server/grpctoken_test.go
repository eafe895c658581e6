package server

import (
	"context"
	"path/filepath"
	"testing"

	ratelimitpb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	stintv1 "github.com/stintdev/stint/api/stint/v1"
)

// calls are all calls of the gRPC listener that decide, as the services list them:
// one that is added later is tried too.
func calls(conn *grpc.ClientConn) map[string]func(context.Context) error {
	all := map[string]func(context.Context) error{}
	for _, service := range []grpc.ServiceDesc{stintv1.LimiterService_ServiceDesc, ratelimitpb.RateLimitService_ServiceDesc} {
		for _, m := range service.Methods {
			all[m.MethodName] = func(ctx context.Context) error {
				return conn.Invoke(ctx, "/"+service.ServiceName+"/"+m.MethodName, &emptypb.Empty{}, &emptypb.Empty{})
			}
		}
		for _, m := range service.Streams {
			all[m.StreamName] = func(ctx context.Context) error {
				stream, err := conn.NewStream(ctx, &m, "/"+service.ServiceName+"/"+m.StreamName)
				if err != nil {
					return err
				}
				_ = stream.CloseSend() // RecvMsg says how it ended
				return stream.RecvMsg(&emptypb.Empty{})
			}
		}
	}
	return all
}

func withFile(t *testing.T) Config {
	t.Helper()
	folder := t.TempDir()
	writeFile(t, filepath.Join(folder, "shop.yaml"), envoyFile)
	return Config{GRPC: "127.0.0.1:0", EnvoyConfig: folder}
}

func TestEveryCallThatDecidesAsksForTheToken(t *testing.T) {
	config := withFile(t)
	config.HTTPToken = "s3cret"
	conn := dialGRPC(t, run(t, config))
	for name, call := range calls(conn) {
		for _, brought := range []string{"", "Bearer ", "Bearer wrong", "s3cret", "Basic s3cret", "Bearer s3cret x"} {
			ctx := patient(t)
			if brought != "" {
				ctx = metadata.AppendToOutgoingContext(ctx, "authorization", brought)
			}
			if err := call(ctx); status.Code(err) != codes.Unauthenticated {
				t.Errorf("%s with %q: %v", name, brought, err)
			}
		}
	}
	envoy := calls(conn)["ShouldRateLimit"]
	for _, brought := range []string{"Bearer s3cret", "bearer s3cret"} {
		if err := envoy(metadata.AppendToOutgoingContext(patient(t), "authorization", brought)); status.Code(err) != codes.InvalidArgument && err != nil {
			t.Errorf("%q: %v", brought, err)
		}
	}
}

// TestHealthAndReflectionAskForNoToken: they decide nothing, and probes have none.
func TestHealthAndReflectionAskForNoToken(t *testing.T) {
	config := withFile(t)
	config.HTTPToken = "s3cret"
	conn := dialGRPC(t, run(t, config))
	if _, err := healthpb.NewHealthClient(conn).Check(patient(t), &healthpb.HealthCheckRequest{}); err != nil {
		t.Error(err)
	}
	stream, err := reflectionpb.NewServerReflectionClient(conn).ServerReflectionInfo(patient(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(&reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_ListServices{}}); err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); err != nil {
		t.Error(err)
	}
}

func TestEnvoyAloneGoesWithoutATokenWhereToldSo(t *testing.T) {
	config := withFile(t)
	config.HTTPToken, config.EnvoyWithoutToken = "s3cret", true
	s := run(t, config)
	for name, call := range calls(dialGRPC(t, s)) {
		err := call(patient(t))
		if open := status.Code(err) != codes.Unauthenticated; open != (name == "ShouldRateLimit") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := s.post("http", "/json", charging["/json"]); got.status != 401 {
		t.Errorf("/json: status %d", got.status)
	}
	if _, err := New(Config{Store: failing{}, EnvoyWithoutToken: true}); err == nil {
		t.Error("an exception of no token is taken")
	}
}

// TestCommandLineIsNotShownByProfiles: a URL on it may have a password in it.
func TestCommandLineIsNotShownByProfiles(t *testing.T) {
	s := run(t, Config{Profiling: true})
	got := s.get("admin", "/debug/pprof/cmdline")
	if got.status != 200 || got.body != "stint" {
		t.Errorf("status %d, %q, want the name of the program alone", got.status, got.body)
	}
}
