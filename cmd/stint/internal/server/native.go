package server

import (
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/cmd/stint/internal/grpcapi"
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
		Observe:      s.metrics.observeNative,
		Taken:        func(face *stint.Decision, f stint.OnFailure) { s.metrics.countTake(face, f) },
		Failed:       func(err error) { s.log.Error("no decision", errorAttr(err)) },
	})
}

// RuleSet implements native.RuleSet.
func (v *version) RuleSet() *rule.Set { return v.set }

// Count implements native.RuleSet.
func (v *version) Count(p rule.Plan, o *rule.Outcome) {
	v.count(o)
	v.keep(p, o)
}

// observeNative counts checks that were decided together. Each of them took the
// time of all.
func (m *metrics) observeNative(took time.Duration, decisions int) {
	seconds := took.Seconds()
	for range decisions {
		m.checks[surfaceGRPC].Observe(seconds)
	}
}
