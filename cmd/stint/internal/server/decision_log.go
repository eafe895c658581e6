package server

import (
	"context"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/cmd/stint/internal/decisionlog"
	"github.com/stintdev/stint/cmd/stint/internal/envoyrls"
	"github.com/stintdev/stint/cmd/stint/internal/metrics"
	"github.com/stintdev/stint/cmd/stint/internal/w3ctrace"
)

// lastWrite bounds the wait for the last lines of the decision log when the server ends. A
// disk, a pipe or a collector may never take them.
const lastWrite = 500 * time.Millisecond

// runDecisionLog writes the decision log until ctx ends. The function that it returns waits for
// the last lines.
func (s *Server) runDecisionLog(ctx context.Context) (wait func()) {
	l := s.config.DecisionLog
	if l == nil {
		return func() {}
	}
	s.metrics.ReadDecisionLog(l)
	done := make(chan struct{})
	go func() {
		defer close(done)
		l.Run(ctx.Done())
	}()
	return func() {
		select {
		case <-done:
		case <-time.After(lastWrite):
			s.log.Error(decisionlog.LastLinesLost, "lines", l.Waiting())
		}
	}
}

// taken returns what logs decisions on limits that callers bring; nil if no decisions are
// logged.
func (s *Server) taken() func([]stint.Claim, stint.Decision, w3ctrace.Ref) {
	if s.config.DecisionLog == nil {
		return nil
	}
	return s.config.DecisionLog.RecordTake
}

// decidedByEnvoy returns what logs decisions of Envoy's rate limit service, and keeps denials; nil
// if neither is done.
func (s *Server) decidedByEnvoy() func(context.Context, *envoyrls.Decided) {
	if s.config.DecisionLog == nil && s.denials == nil {
		return nil
	}
	return func(ctx context.Context, d *envoyrls.Decided) {
		if s.config.DecisionLog != nil {
			s.config.DecisionLog.RecordEnvoy(d, w3ctrace.FromContext(ctx))
		}
		if s.denials != nil {
			s.denials.RecordEnvoy(uint8(metrics.Envoy), d)
		}
	}
}

// domainsLogged returns what tells the decision log the domains of Envoy's rate limit service;
// nil if no decisions are logged.
func (s *Server) domainsLogged() func([]string) {
	if s.config.DecisionLog == nil {
		return nil
	}
	return s.config.DecisionLog.Domains
}
