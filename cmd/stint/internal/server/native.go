package server

import (
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/cmd/stint/internal/grpcapi"
	"github.com/stintdev/stint/cmd/stint/internal/metrics"
	"github.com/stintdev/stint/rule"
)

// newNative is what answers the native protocol on the gRPC listener.
func (s *Server) newNative() *grpcapi.Service {
	return grpcapi.New(grpcapi.Options{
		Store:        s.rules.store,
		Rules:        func() grpcapi.RuleSet { return s.rules.current.Load() },
		Token:        s.httpToken,
		Private:      s.grpcTLS.asksClients() || loopback(s.config.GRPC),
		WriteTimeout: s.config.HeaderTimeout,
		Observe:      func(took time.Duration, n int) { s.metrics.ObserveChecks(metrics.GRPC, took, n) },
		Taken:        func(face *stint.Decision, f stint.OnFailure) { s.metrics.CountTake(face, f) },
		Failed:       func(err error) { s.log.Error("no decision", errorAttr(err)) },
	})
}

// RuleSet implements native.RuleSet.
func (v *version) RuleSet() *rule.Set { return v.set }

// Count implements native.RuleSet.
func (v *version) Count(p rule.Plan, o *rule.Outcome) {
	v.countOutcome(o)
	v.keep(p, o)
}
