package server

import (
	"context"
	"crypto/tls"
	"net"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/cmd/stint/internal/metrics"
	"github.com/stintdev/stint/cmd/stint/internal/resp"
)

// respListener serves the Redis protocol.
type respListener struct {
	server *resp.Server
	certs  *certificates // nil without TLS
}

func (s *Server) newRESPListener() *respListener {
	return &respListener{resp.New(resp.Options{
		Store: s.store, Token: s.httpToken, Logger: s.log,
		CommandTimeout: s.config.HeaderTimeout, WriteTimeout: s.config.HeaderTimeout,
		Observe: s.observeRESP, Failed: s.logRESPFailure,
	}), s.certs}
}

func (r *respListener) serve(l net.Listener) error {
	if r.certs != nil {
		l = tls.NewListener(l, r.certs.config())
	}
	return r.server.Serve(l)
}

// ready and unready do nothing: the protocol cannot say it.
func (r *respListener) ready()   {}
func (r *respListener) unready() {}

func (r *respListener) drain(ctx context.Context) error { return r.server.Drain(ctx) }

func (r *respListener) stop() { r.server.Stop() }

// logRESPFailure logs why there was no decision, as the HTTP surfaces do.
func (s *Server) logRESPFailure(err *stint.Error) {
	if !leftAlone(err) {
		s.log.Error("no decision", errorAttr(err))
	}
}

// observeRESP records the checks of a batch and counts their decisions.
func (s *Server) observeRESP(b resp.Batch) {
	s.metrics.ObserveChecks(metrics.RESP, b.Took, b.Allowed+b.Denied+b.Degraded)
	s.metrics.CountTakes(b.Allowed, b.Denied, b.Degraded)
}
