package server

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"time"

	ratelimitpb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/stintdev/stint/cmd/stint/internal/envoyrls"
	"github.com/stintdev/stint/cmd/stint/internal/grpcapi"
	"github.com/stintdev/stint/cmd/stint/internal/metrics"
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
	s.envoy, err = envoyrls.New(envoyrls.Options{
		Dir:      s.config.EnvoyConfig,
		Merge:    s.config.EnvoyMerge,
		Store:    s.store,
		Headers:  (*envoyrls.HeaderNames)(s.config.EnvoyHeaders),
		CountAll: s.config.EnvoyCompat,
		Shadow:   s.config.EnvoyShadow,
		Quota:    s.config.EnvoyQuota,
		Metadata: s.config.EnvoyMetadata,

		StopWhenOver: s.config.EnvoyStop,
		Counters:     s.metrics.EnvoyLimit,
		Loaded:       s.metrics.EnvoyFiles(),
		Logger:       s.log,
	})
	return err
}

// envoyFollowing is closed once changes of Envoy's files are noticed.
func (s *Server) envoyFollowing() <-chan struct{} {
	if s.envoy == nil {
		never := make(chan struct{}) // without files there is nothing to wait for
		close(never)
		return never
	}
	return s.envoy.Watching()
}

// shouldRateLimit decides a request from Envoy, over gRPC or JSON.
func (s *Server) shouldRateLimit(ctx context.Context, request *ratelimitpb.RateLimitRequest) (*ratelimitpb.RateLimitResponse, error) {
	if s.envoy == nil {
		return nil, status.Error(codes.FailedPrecondition, "no rate limit configuration loaded (start stint serve with --envoy-config DIR)")
	}
	return s.envoy.ShouldRateLimit(ctx, request)
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
	return grpcapi.Admit(ctx, s.httpToken)
}

// ShouldRateLimit implements the service.
func (e *envoyServer) ShouldRateLimit(ctx context.Context, request *ratelimitpb.RateLimitRequest) (*ratelimitpb.RateLimitResponse, error) {
	if err := e.server.admitEnvoy(ctx); err != nil {
		return nil, err
	}
	started := time.Now()
	response, err := e.server.shouldRateLimit(ctx, request)
	e.server.metrics.ObserveCheck(metrics.Envoy, time.Since(started))
	return response, err
}

// envoyJSON handles POST /json: the service's request and response as JSON.
func (s *Server) envoyJSON(r *http.Request, body []byte) (code int, answer any, err error) {
	var request ratelimitpb.RateLimitRequest
	if err := protojson.Unmarshal(body, &request); err != nil {
		return 0, nil, badRequest("body: is not a rate limit request: %s", withNearest(plainSpaces(err.Error()), &request))
	}
	response, err := s.shouldRateLimit(r.Context(), &request)
	if err != nil {
		return 0, nil, fromStatus(err)
	}
	code = http.StatusOK
	if response.GetOverallCode() == ratelimitpb.RateLimitResponse_OVER_LIMIT {
		code = http.StatusTooManyRequests
	}
	written, err := protojson.Marshal(response)
	if err != nil {
		return 0, nil, err
	}
	return code, json.RawMessage(written), nil
}

// plainSpaces replaces the non-breaking spaces in protojson's errors. protojson varies
// its spaces so that nobody relies on its texts.
func plainSpaces(text string) string {
	return string(bytes.ReplaceAll([]byte(text), []byte("\u00a0"), []byte(" ")))
}

// told is an answer whose cause has been logged already or needs no log.
type told struct{ *apiError }

func (t told) Unwrap() error { return t.apiError }

// fromStatus translates a gRPC status to an HTTP answer. Envoy's service has already
// logged the cause, unless the caller or the command line caused it.
func fromStatus(err error) error {
	s := status.Convert(err)
	if s.Code() == codes.InvalidArgument {
		return &apiError{http.StatusBadRequest, codeInvalid, s.Message()}
	}
	code := codeInternal
	if s.Code() == codes.Unavailable || s.Code() == codes.DeadlineExceeded {
		code = codeUnavailable
	}
	return told{&apiError{http.StatusInternalServerError, code, s.Message()}}
}
