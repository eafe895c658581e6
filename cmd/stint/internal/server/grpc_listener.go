package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime/debug"
	"time"

	authpb "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	ratelimitpb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/status"

	"github.com/stintdev/stint/cmd/stint/internal/grpcapi"
	"github.com/stintdev/stint/cmd/stint/internal/httpapi"
	"github.com/stintdev/stint/cmd/stint/internal/metrics"
	"github.com/stintdev/stint/cmd/stint/internal/slowclient"
	"github.com/stintdev/stint/cmd/stint/internal/tracing"
)

// ratelimitService is the service name that Envoy's users pass to the health service.
const ratelimitService = "ratelimit"

// grpcListener serves gRPC: the native protocol, Envoy's rate limit service,
// health and reflection.
type grpcListener struct {
	*grpc.Server
	health *health.Server
	native *grpcapi.Service
	stream time.Duration // bounds each write
}

func (s *Server) newGRPCListener() *grpcListener {
	traced := s.config.Tracer.Listener()
	g := &grpcListener{grpc.NewServer(s.grpcOptions(traced)...), health.NewServer(), s.newNative(traced), s.config.StreamTimeout}
	for _, service := range []string{"", ratelimitService} {
		g.health.SetServingStatus(service, healthpb.HealthCheckResponse_NOT_SERVING)
	}
	g.native.Register(g.Server)
	ratelimitpb.RegisterRateLimitServiceServer(g.Server, &envoyServer{server: s})
	authpb.RegisterAuthorizationServer(g.Server, httpapi.NewExtAuthz(s.newForwardAuth(), s.admitEnvoy))
	healthpb.RegisterHealthServer(g.Server, g.health)
	reflection.Register(g.Server)
	return g
}

func (s *Server) newNative(traced *tracing.Listener) *grpcapi.Service {
	return grpcapi.New(grpcapi.Options{
		Decider:      s.newDecider(metrics.GRPC, metrics.GRPC),
		Token:        s.httpToken,
		Private:      s.grpcTLS.asksClients() || httpapi.Loopback(s.config.GRPC),
		WriteTimeout: s.config.HeaderTimeout,
		Traced:       traced,
		Failed:       s.logNoDecision,
		Refused:      s.grpcRefused,
	})
}

// maxStreams bounds the concurrent calls of a connection.
const maxStreams = 1000

// grpcOptions bound the resources that one client can use.
func (s *Server) grpcOptions(traced *tracing.Listener) []grpc.ServerOption {
	messages := slowclient.NewMessages(s.config.BodyTimeout, s.config.IdleTimeout)
	options := []grpc.ServerOption{
		grpc.ChainUnaryInterceptor(s.unary(traced, messages.Unary)...),
		grpc.ChainStreamInterceptor(s.recoverStream, messages.Stream),
		grpc.InTapHandle(messages.Begin),
		grpc.ForceServerCodecV2(newEnvoyCodec()),
		grpc.MaxRecvMsgSize(httpapi.MaxBody),
		grpc.MaxHeaderListSize(maxHeaderBytes),
		grpc.MaxConcurrentStreams(maxStreams),
		grpc.ConnectionTimeout(s.config.HeaderTimeout),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 10 * time.Second, PermitWithoutStream: true}),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			// Cuts off a client that stops in the middle of a call and answers no ping.
			Time: s.config.StreamTimeout, Timeout: s.config.StreamTimeout / 3,
			MaxConnectionAge: s.config.GRPCMaxAge, MaxConnectionAgeGrace: s.config.GRPCMaxAgeGrace,
		}),
	}
	return append(options, grpc.Creds(&slowclient.Windows{
		TransportCredentials: s.grpcCredentials(), Timeout: s.config.StreamTimeout, MaxStreams: maxStreams,
	}))
}

// unary returns the interceptors of unary calls, the outermost first.
func (s *Server) unary(traced *tracing.Listener, messages grpc.UnaryServerInterceptor) []grpc.UnaryServerInterceptor {
	if traced != nil {
		return []grpc.UnaryServerInterceptor{s.recoverUnary, traced.Unary, messages}
	}
	return []grpc.UnaryServerInterceptor{s.recoverUnary, messages}
}

func (s *Server) grpcCredentials() credentials.TransportCredentials {
	if s.grpcTLS != nil {
		return credentials.NewTLS(s.grpcTLS.config())
	}
	return insecure.NewCredentials()
}

// loadGRPCCertificates returns the certificates of GRPCTLS, or those of all listeners.
func (s *Server) loadGRPCCertificates() (*certificates, error) {
	if s.config.GRPCTLS == (TLSFiles{}) {
		return s.certs, nil
	}
	return loadCertificates(s.config.GRPCTLS)
}

func (g *grpcListener) serve(l net.Listener) error {
	if err := g.Serve(slowclient.Connections(g.stream, l)); !errors.Is(err, grpc.ErrServerStopped) {
		return err
	}
	return nil
}

// ready reports SERVING to the health service.
func (g *grpcListener) ready() { g.health.Resume() }

// unready reports NOT_SERVING, also to clients that watch health.
func (g *grpcListener) unready() { g.health.Shutdown() }

// streamGrace bounds the wait for calls in flight. Calls of this service take
// milliseconds, and streams that watch health never end by themselves.
const streamGrace = 2 * time.Second

// drain waits for the calls in flight, up to streamGrace.
func (g *grpcListener) drain(ctx context.Context) error {
	g.native.Drain()
	ctx, cancel := context.WithTimeout(ctx, streamGrace)
	defer cancel()
	done := make(chan struct{})
	go func() { g.GracefulStop(); close(done) }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (g *grpcListener) stop() { g.Stop() }

// recoverUnary keeps a panic in one call from ending the process. grpc-go does not
// recover panics.
func (s *Server) recoverUnary(ctx context.Context, request any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (answer any, err error) {
	defer func() {
		if p := recover(); p != nil {
			answer, err = nil, s.panicked(info.FullMethod, p)
		}
	}()
	return next(ctx, request)
}

// recoverStream is recoverUnary for streams.
func (s *Server) recoverStream(service any, stream grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = s.panicked(info.FullMethod, p)
		}
	}()
	return next(service, stream)
}

func (s *Server) panicked(method string, p any) error {
	s.log.Error("panic serving gRPC", "method", method, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
	return status.Error(codes.Internal, "no decision could be made")
}
