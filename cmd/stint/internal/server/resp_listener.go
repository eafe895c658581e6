package server

import (
	"context"
	"crypto/tls"
	"net"

	"github.com/stintdev/stint/cmd/stint/internal/decide"
	"github.com/stintdev/stint/cmd/stint/internal/metrics"
	"github.com/stintdev/stint/cmd/stint/internal/resp"
)

// respListener serves the Redis protocol.
type respListener struct {
	server *resp.Server
	certs  *certificates // nil without TLS
}

func (s *Server) newRESPListener() *respListener {
	decider := decide.New(decide.Options{Store: countKeys(s.store, s.keys, nil), Emergency: s.rules.inEmergency, Taken: s.taken(), Denied: s.denied(metrics.RESP), Observe: func(r decide.Report) {
		r.Takes = r.Allowed + r.Denied
		for _, n := range r.Degraded {
			r.Takes += n
		}
		s.metrics.ObserveDecisions(metrics.RESP, metrics.RESP, &r)
	}})
	return &respListener{resp.New(resp.Options{
		Decider: decider, Token: s.httpToken, Logger: s.log,
		CommandTimeout: s.config.HeaderTimeout, WriteTimeout: s.config.HeaderTimeout,
		Failed: s.logNoDecision, Refused: s.metrics.AuthFailures("resp"),
	}), s.certs}
}

// logNoDecision logs why a request got no decision.
func (s *Server) logNoDecision(err error) { s.log.Error("no decision", errorAttr(err)) }

func (r *respListener) serve(l net.Listener) error {
	if r.certs != nil {
		l = tls.NewListener(l, r.certs.config())
	}
	return r.server.Serve(l)
}

// ready and unready do nothing: the protocol cannot report readiness.
func (r *respListener) ready()   {}
func (r *respListener) unready() {}

func (r *respListener) drain(ctx context.Context) error { return r.server.Drain(ctx) }

func (r *respListener) stop() { r.server.Stop() }
