package server

import (
	"bytes"
	"context"
	"errors"
	"log"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/cmd/stint/internal/decide"
	"github.com/stintdev/stint/cmd/stint/internal/http1server"
	"github.com/stintdev/stint/cmd/stint/internal/httpapi"
	"github.com/stintdev/stint/cmd/stint/internal/metrics"
	"github.com/stintdev/stint/cmd/stint/internal/slowclient"
	"github.com/stintdev/stint/cmd/stint/internal/tracing"
	"github.com/stintdev/stint/cmd/stint/internal/w3ctrace"
	"github.com/stintdev/stint/httplimit"
	"github.com/stintdev/stint/resilience/deadline"
)

// Bounds of every HTTP listener.
const (
	maxHeaderBytes = 32 << 10 // more is answered with 431
	answerTime     = 10 * time.Second
)

// httpListener serves HTTP/1.1 and HTTP/2, the latter also without TLS.
type httpListener struct {
	*http.Server
	stream    time.Duration          // bounds each part of an answer that has no bound as a whole
	cut       context.CancelFunc     // ends the context of every request
	room      *slowclient.HeaderRoom // nil: headers over maxHeaderBytes are refused
	addresses *slowclient.Addresses  // nil: connections are not tracked by address
	plain     *http1server.Server    // serves plain requests; nil: net/http serves all
	leaving   atomic.Bool            // unready: every answer closes its connection
}

// newHTTPListener returns a listener that allows a request the time read to arrive, and
// the time write from the end of its headers to be answered. Zero sets no bound; with
// write 0 each part of an answer has a bound instead.
func (s *Server) newHTTPListener(handler http.Handler, read, write time.Duration) *httpListener {
	base, cut := context.WithCancel(context.Background())
	if write == 0 {
		handler = slowclient.Answers(s.config.StreamTimeout, handler)
	}
	h := &httpListener{stream: s.config.StreamTimeout, cut: cut}
	h.Server = &http.Server{
		Handler:           h.closing(handler),
		ReadHeaderTimeout: s.config.HeaderTimeout,
		ReadTimeout:       read,
		WriteTimeout:      write,
		IdleTimeout:       s.config.IdleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		Protocols:         new(http.Protocols),
		ErrorLog:          log.New(serverLog{s.log}, "", 0),
		BaseContext:       func(net.Listener) context.Context { return base },
	}
	h.Protocols.SetHTTP1(true)
	h.Protocols.SetHTTP2(true)
	h.Protocols.SetUnencryptedHTTP2(true)
	if s.certs != nil {
		h.TLSConfig = s.certs.config()
	}
	return h
}

// newCheckListener returns the listener of the check API: newHTTPListener with larger
// headers, whose memory is bounded over all connections.
func (s *Server) newCheckListener(handler http.Handler, body time.Duration) *httpListener {
	room := slowclient.NewHeaderRoom()
	h := s.newHTTPListener(room.Wrap(handler), body, body+answerTime)
	h.MaxHeaderBytes, h.room, h.ConnState = slowclient.MaxHeaderBytes, room, room.ConnState
	return h
}

// closing asks clients to reconnect elsewhere once the listener is unready. Idle
// connections stay open until the drain, because a request may be on its way on any of
// them, and SetKeepAlivesEnabled would cut it off.
func (h *httpListener) closing(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if h.leaving.Load() && r.Header.Get("Upgrade") == "" {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}

func (h *httpListener) serve(l net.Listener) error {
	if h.addresses != nil {
		l = h.addresses.Listener(l)
	}
	if h.WriteTimeout == 0 {
		l = slowclient.Connections(h.stream, l)
		h.ConnContext = slowclient.ConnContext(h.ConnContext)
	}
	if h.room != nil {
		l = h.room.Listener(l)
	}
	var err error
	switch {
	case h.TLSConfig != nil:
		err = h.ServeTLS(l, "", "")
	case h.plain != nil:
		err = h.plain.Serve(l)
	default:
		err = h.Serve(l)
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// ready does nothing: the handlers report readiness.
func (h *httpListener) ready() {}

// unready asks clients to reconnect elsewhere.
func (h *httpListener) unready() { h.leaving.Store(true) }

// drain stops accepting and waits for the requests in flight.
func (h *httpListener) drain(ctx context.Context) error {
	if h.plain != nil {
		return h.plain.Shutdown(ctx)
	}
	return h.Shutdown(ctx)
}

// stop closes all remaining connections, upgraded ones included.
func (h *httpListener) stop() {
	h.cut()
	if h.plain != nil {
		h.plain.Close()
	}
	_ = h.Close() // only reports that a listener was closed before
}

// serverLog receives the log lines of net/http. Most of them report protocol violations,
// which any client can provoke without limit, so they are logged at debug level.
type serverLog struct{ log *slog.Logger }

func (l serverLog) Write(p []byte) (int, error) {
	level := slog.LevelDebug
	if bytes.Contains(p, []byte("panic serving")) {
		level = slog.LevelError
	}
	l.log.Log(context.Background(), level, string(bytes.TrimSpace(p)))
	return len(p), nil
}

// httpHandler returns the handler of the http listener.
func (s *Server) httpHandler() http.Handler {
	t := s.newRouter()
	t.Elsewhere = " (see /openapi.yaml; rules, keys, nodes and metrics are on the --admin listener)"
	httpapi.New(httpapi.Options{
		Decider: s.newDecider(metrics.Check, metrics.Take),
		Auth:    s.newForwardAuth(),
		Envoy:   s.shouldRateLimit,
		Token:   s.httpToken, Refused: s.metrics.AuthFailures("http"),
		Loopback: httpapi.Loopback(s.config.HTTP),
		Logger:   s.log,
	}).AddTo(t)
	s.trace(t)
	return t
}

// trace records the requests to the endpoints that decide.
func (s *Server) trace(t *httpapi.Router) {
	traced := s.config.Tracer.Listener()
	if traced == nil {
		return
	}
	for path, route := range t.Paths {
		if route.Method == http.MethodPost {
			route.Handle = traced.HTTP(path, route.Handle)
			t.Paths[path] = route
		}
	}
	for i := range t.Folders {
		t.Folders[i].Handle = traced.HTTP(t.Folders[i].Prefix, t.Folders[i].Handle)
	}
}

// newRouter returns a router with the health endpoints.
func (s *Server) newRouter() *httpapi.Router {
	return &httpapi.Router{Paths: s.healthRoutes(), Errors: httpapi.ErrorWriter{Logger: s.log}}
}

func (s *Server) newForwardAuth() *httpapi.ForwardAuth {
	return httpapi.NewForwardAuth(s.newRequestDecider(metrics.Auth), s.config.identity(), s.log)
}

func (s *Server) newRequestDecider(of metrics.Surface) httplimit.Decider {
	return &requestDecider{rules: s.rules, surface: of}
}

// requestDecider decides HTTP requests by the rules in force, and counts the decisions in
// the metrics of one surface.
type requestDecider struct {
	rules   *rules
	surface metrics.Surface
}

// Decide implements [httplimit.Decider].
func (d *requestDecider) Decide(ctx context.Context, r *httplimit.Request) (httplimit.Answer, error) {
	started := time.Now()
	v := d.rules.current.Load()
	d.rules.warnRequests(v)
	if v.canary != nil {
		r.SetAPIKey(v.identity.APIKey)
		v = v.canary.of(v, r)
	}
	if d.surface == metrics.Gateway {
		ctx = withUsableDelay(ctx, r.Request)
	}
	answer, err := v.surfaces[d.surface].decider.Decide(ctx, r)
	markEmergency(v.emergency, &answer)
	d.rules.metrics.ObserveCheck(d.surface, time.Since(started), spanOf(ctx, r.Header).TraceID())
	if err != nil {
		ending := decide.EndingOfError(err)
		if ending == decide.Failed {
			v.surfaces[d.surface].CountError(r)
		}
		d.rules.metrics.RequestEnded(d.surface, ending, 1)
	}
	return answer, err
}

// withUsableDelay has a leaky bucket deny a request that it would delay past the deadline of
// its client. The gateway waits for the delay, so such a request would be answered too late,
// and charged for nothing.
func withUsableDelay(ctx context.Context, r *http.Request) context.Context {
	if left, ok := (deadline.Middleware{}).TimeLeft(r); ok {
		return stint.WithMaxDelay(ctx, left)
	}
	return ctx
}

// spanOf returns the span of a request.
func spanOf(ctx context.Context, h http.Header) w3ctrace.Ref {
	return tracing.RefOf(ctx, h[w3ctrace.Parent])
}

// newDecider returns a decider by the rules in force, whose checks and takes are measured
// as those of the given surfaces.
func (s *Server) newDecider(check, take metrics.Surface) *decide.Decider {
	return decide.New(decide.Options{
		Store:   s.rules.store,
		Rules:   func() decide.Rules { return &s.rules.current.Load().surfaces[check] },
		Observe: func(r decide.Report) { s.metrics.ObserveDecisions(check, take, &r) },

		Taken:     s.taken(),
		Denied:    s.denied(take),
		Emergency: s.rules.inEmergency,
	})
}
