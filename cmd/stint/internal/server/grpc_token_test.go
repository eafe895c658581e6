package server

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"
)

// calls lists the full names of all gRPC calls that decide, as the listener reports them, so a
// call that is added later is tested too.
func calls(t *testing.T, s *running) map[string]func(context.Context) error {
	t.Helper()
	conn := dialGRPC(t, s)
	all := map[string]func(context.Context) error{}
	for _, l := range s.listeners {
		g, ok := l.service.(*grpcListener)
		if !ok {
			continue
		}
		for service, info := range g.GetServiceInfo() {
			if decidesNothing(service) {
				continue
			}
			for _, m := range info.Methods {
				name := "/" + service + "/" + m.Name
				all[name] = func(ctx context.Context) error {
					stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, name)
					if err != nil {
						return err
					}
					_ = stream.SendMsg(&emptypb.Empty{}) // RecvMsg says how it ended
					_ = stream.CloseSend()
					return stream.RecvMsg(&emptypb.Empty{})
				}
			}
		}
	}
	for _, name := range []string{checkName, takeName, rateLimitName, extAuthzName} {
		if all[name] == nil {
			t.Errorf("%s is not listed", name)
		}
	}
	return all
}

const (
	checkName     = "/stint.v1.LimiterService/Check"
	takeName      = "/stint.v1.LimiterService/Take"
	rateLimitName = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"
	extAuthzName  = "/envoy.service.auth.v3.Authorization/Check"
)

// decidesNothing tells health and reflection.
func decidesNothing(service string) bool {
	return strings.HasPrefix(service, "grpc.health.") || strings.HasPrefix(service, "grpc.reflection.")
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
	all := calls(t, run(t, config))
	for name, call := range all {
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
	envoy := all[rateLimitName]
	for _, brought := range []string{"Bearer s3cret", "bearer s3cret"} {
		if err := envoy(metadata.AppendToOutgoingContext(patient(t), "authorization", brought)); status.Code(err) != codes.InvalidArgument && err != nil {
			t.Errorf("%q: %v", brought, err)
		}
	}
}

// TestHealthAndReflectionAskForNoToken: neither decides anything, and health probes have no
// token.
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

func TestEnvoyWithoutTokenExemptsEnvoyAlone(t *testing.T) {
	config := withFile(t)
	config.HTTPToken, config.EnvoyWithoutToken = "s3cret", true
	s := run(t, config)
	for name, call := range calls(t, s) {
		err := call(patient(t))
		if open := status.Code(err) != codes.Unauthenticated; open != (name == rateLimitName || name == extAuthzName) {
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

// TestCommandLineIsNotShownByProfiles: the command line may have a URL with a password.
func TestCommandLineIsNotShownByProfiles(t *testing.T) {
	s := run(t, Config{Profiling: true})
	got := s.get("admin", "/debug/pprof/cmdline")
	if got.status != 200 || got.body != "stint" {
		t.Errorf("status %d, %q, want the name of the program alone", got.status, got.body)
	}
}
