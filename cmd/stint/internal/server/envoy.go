package server

import (
	"context"
	"time"

	ratelimitpb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/stintdev/stint/cmd/stint/internal/decide"
	"github.com/stintdev/stint/cmd/stint/internal/envoyrls"
	"github.com/stintdev/stint/cmd/stint/internal/grpcapi"
	"github.com/stintdev/stint/cmd/stint/internal/metrics"
	"github.com/stintdev/stint/cmd/stint/internal/tracing"
	"github.com/stintdev/stint/cmd/stint/internal/w3ctrace"
)

// EnvoyHeaders are the names of the headers that report the limit, the remaining
// allowance, and the seconds until it is full again.
type EnvoyHeaders struct{ Limit, Remaining, Reset string }

// DefaultEnvoyHeaders are the names that Envoy's own service uses.
func DefaultEnvoyHeaders() *EnvoyHeaders {
	return &EnvoyHeaders{"RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset"}
}

// readEnvoyConfig prepares Envoy's rate limit service if it is configured.
func (s *Server) readEnvoyConfig() (err error) {
	if s.config.EnvoyConfig == "" {
		return nil
	}
	if s.config.EnvoyCompat {
		s.metrics.CountEnvoyHits()
	}
	s.envoy, err = envoyrls.New(envoyrls.Options{
		Dir:      s.config.EnvoyConfig,
		Merge:    s.config.EnvoyMerge,
		Store:    countKeys(s.store, s.keys, nil),
		Headers:  (*envoyrls.HeaderNames)(s.config.EnvoyHeaders),
		CountAll: s.config.EnvoyCompat,
		Shadow:   s.config.EnvoyShadow,
		Quota:    s.config.EnvoyQuota,
		Metadata: s.config.EnvoyMetadata,

		Consistency:  s.config.EnvoyConsistency,
		StopWhenOver: s.config.EnvoyStop,
		NearRatio:    s.config.EnvoyNearRatio,
		Counters:     s.metrics.EnvoyLimit,
		Unmatched:    s.metrics.Unmatched(metrics.Envoy),
		Loaded:       s.metrics.EnvoyFiles(),
		Logger:       s.log,

		Emergency:        s.rules.inEmergency,
		ObserveEmergency: s.metrics.EmergencyDecided,

		Decided:    s.decidedByEnvoy(),
		DeniedOnly: s.config.DecisionLog == nil,
		Domains:    s.domainsLogged(),
	})
	return err
}

// envoyFollowing returns a channel that is closed once Envoy's files are watched.
func (s *Server) envoyFollowing() <-chan struct{} {
	if s.envoy == nil {
		closed := make(chan struct{}) // without files there is nothing to wait for
		close(closed)
		return closed
	}
	return s.envoy.Watching()
}

// shouldRateLimit decides a request from Envoy, over gRPC or JSON. ctx has the span of the
// request: see [w3ctrace.FromContext].
func (s *Server) shouldRateLimit(ctx context.Context, request *ratelimitpb.RateLimitRequest) (*ratelimitpb.RateLimitResponse, error) {
	started := time.Now()
	response, degraded, err := s.decideEnvoy(ctx, request)
	s.metrics.ObserveCheck(metrics.Envoy, time.Since(started), w3ctrace.FromContext(ctx).TraceID())
	s.metrics.RequestEnded(metrics.Envoy, envoyEnding(response, degraded, err), 1)
	return response, err
}

func (s *Server) decideEnvoy(ctx context.Context, request *ratelimitpb.RateLimitRequest) (response *ratelimitpb.RateLimitResponse, degraded bool, err error) {
	if s.envoy == nil {
		return nil, false, status.Error(codes.FailedPrecondition, "no rate limit configuration loaded (start stint serve with --envoy-config DIR)")
	}
	return s.envoy.Decide(ctx, request)
}

// envoyEnding returns how a request from Envoy ended. A request without a decision, which
// Envoy's failure_mode_deny then decides, has failed.
func envoyEnding(response *ratelimitpb.RateLimitResponse, degraded bool, err error) decide.Ending {
	switch status.Code(err) {
	case codes.OK:
		return decide.EndingOf(response.GetOverallCode() != ratelimitpb.RateLimitResponse_OVER_LIMIT, degraded)
	case codes.InvalidArgument, codes.FailedPrecondition:
		return decide.Invalid
	default:
		return decide.Failed
	}
}

// envoyServer is Envoy's rate limit service over gRPC.
type envoyServer struct {
	ratelimitpb.UnimplementedRateLimitServiceServer

	server *Server
}

// admitEnvoy requires the token of a call from Envoy, unless EnvoyWithoutToken exempts
// it.
func (s *Server) admitEnvoy(ctx context.Context) error {
	if s.config.EnvoyWithoutToken {
		return nil
	}
	err := grpcapi.Admit(ctx, s.httpToken)
	if err != nil {
		s.grpcRefused()
	}
	return err
}

// ShouldRateLimit implements the service.
func (e *envoyServer) ShouldRateLimit(ctx context.Context, request *ratelimitpb.RateLimitRequest) (*ratelimitpb.RateLimitResponse, error) {
	if err := e.server.admitEnvoy(ctx); err != nil {
		return nil, err
	}
	span := tracing.RefOf(ctx, metadata.ValueFromIncomingContext(ctx, "traceparent"))
	return e.server.shouldRateLimit(w3ctrace.WithRef(ctx, span), request)
}
