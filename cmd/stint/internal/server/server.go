// Package server runs stint serve: its listeners with TLS, the wiring of the surfaces to
// the store and the rules, reloads, and the drain.
//
// Use it from a command that has read its flags and chosen a store, or from a test that
// needs a whole server in its own process. [New] refuses a wrong configuration before
// anything is opened. [Server.Run] serves until its context ends and then drains.
//
// The package promises that one rule set decides a request from beginning to end, that
// rules with a mistake never replace the last good ones, that no answer, log line or metric
// repeats a token, a password or a caller's key, and that every listener bounds the time
// and the bytes that one client can make it spend.
package server

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"net"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/cmd/stint/internal/adminapi"
	"github.com/stintdev/stint/cmd/stint/internal/decisionlog"
	"github.com/stintdev/stint/cmd/stint/internal/denials"
	"github.com/stintdev/stint/cmd/stint/internal/envoyrls"
	"github.com/stintdev/stint/cmd/stint/internal/gateway"
	"github.com/stintdev/stint/cmd/stint/internal/http1server"
	"github.com/stintdev/stint/cmd/stint/internal/httpapi"
	"github.com/stintdev/stint/cmd/stint/internal/live"
	"github.com/stintdev/stint/cmd/stint/internal/metrics"
	"github.com/stintdev/stint/cmd/stint/internal/peek"
	"github.com/stintdev/stint/cmd/stint/internal/slowclient"
	"github.com/stintdev/stint/cmd/stint/internal/topkeys"
	"github.com/stintdev/stint/internal/secret"
)

// Server runs all listeners over one store and one rule set. Make it with [New] and run
// it once.
type Server struct {
	config  Config
	log     *slog.Logger
	metrics *metrics.Metrics
	store   stint.Store
	calls   *metrics.StoreCalls // measures the calls to the store
	keys    *topkeys.Sketch     // nil: no keys are counted
	denials *denials.Recent     // nil: there is no admin listener, which shows them
	live    *live.Recorder      // nil: there is no admin listener
	rules   *rules

	failOpen *failOpenLog

	grpcRefused func() // counts a call to GRPC without the token

	started   time.Time
	nodeID    string                // identifies this process among those that share its rules
	certs     *certificates         // nil without TLS
	grpcTLS   *certificates         // for gRPC; nil without TLS
	gateway   *gateway.Gateway      // nil without upstreams
	addresses *slowclient.Addresses // nil: the gateway is off, or bounds no address
	envoy     *envoyrls.Service     // nil without EnvoyConfig

	httpToken   *secret.Text     // nil if no token is required
	adminTokens *adminapi.Tokens // nil if admin requires no token
	secrets     []*secret.Files  // the watched files

	listeners []*listener
	isReady   atomic.Bool
	opened    chan struct{} // closed when all listeners are open
}

// New reads the rules and the certificates and prepares all listeners. An error means
// that the configuration is wrong; no listener has been opened then.
func New(config Config) (*Server, error) {
	config = config.setDefaults()
	if err := config.check(); err != nil {
		return nil, err
	}
	config.Logger = boundLog(config.Logger)
	if config.KeyHash.IsZero() {
		config.KeyHash = decisionlog.NewKey()
	}
	s := &Server{config: config, log: config.Logger, metrics: metrics.New(metrics.Options{NearLimit: config.NearLimit, NativeHistograms: config.NativeHistograms}), nodeID: rand.Text()[:8], started: time.Now(), opened: make(chan struct{})}
	s.store = config.Tracer.Store(s.measured())
	if config.Tracer != nil {
		s.metrics.ReadSpans(config.Tracer.Dropped, config.DroppedSpans)
	}
	if config.HotKeyRate > 0 || config.Admin != "" {
		s.keys = topkeys.New(config.HotKeyRate)
	}
	if config.Admin != "" {
		s.denials = newRecentDenials(config.KeyHash)
		s.live = live.New(s.readLive)
	}
	if config.HotKeyRate > 0 {
		s.metrics.ReadHotKeys(s.keys.HotKeys)
	}
	var err error
	if err = s.openSecrets(); err != nil {
		return nil, err
	}
	if keys := s.config.Keys; keys != nil && keys.FromURL() {
		s.metrics.ReadTokenKeys(keys.Fetched)
	}
	if s.rules, err = newRules(&s.config, s.store, s.keys, s.denials, s.node, s.metrics); err != nil {
		return nil, err
	}
	if err = s.readEnvoyConfig(); err != nil {
		return nil, err
	}
	return s, s.prepare()
}

// measured returns the store, measured unless StoreCalls already measures it. It also prepares
// the log of what is admitted while the store fails.
func (s *Server) measured() stint.Store {
	store, calls := s.config.Store, s.config.StoreCalls
	if calls == nil {
		calls = metrics.NewStoreCalls(s.config.NativeHistograms)
		store = stint.ObserveStore(store, "memory", calls)
	}
	s.calls = calls
	s.metrics.ReadStores(s.defaultStore(), s.config.Stores, s.config.KeptCharges)
	s.metrics.ReadReady(s.isReady.Load)
	s.failOpen = newFailOpenLog(s.log, s.lastStoreError)
	s.metrics.OnFailOpen(s.failOpen.admitted)
	return store
}

// prepare creates the configured listeners, in the order in which they are drained.
func (s *Server) prepare() error {
	if s.config.Gateway != "" {
		if err := s.listenGateway(); err != nil {
			return err
		}
	}
	body := s.config.BodyTimeout
	if s.config.HTTP != "" {
		s.listen("http", s.config.HTTP, s.newCheckListener(s.httpHandler(), body))
	}
	if s.config.GRPC != "" {
		s.grpcRefused = s.metrics.AuthFailures("grpc")
		s.listen("grpc", s.config.GRPC, s.newGRPCListener())
	}
	if s.config.RESP != "" {
		s.listen("resp", s.config.RESP, s.newRESPListener())
	}
	if s.config.Admin != "" {
		// No bound on writing: a profile may take minutes.
		s.listen("admin", s.config.Admin, s.newHTTPListener(s.adminHandler(), body, 0))
	}
	return nil
}

func (s *Server) listenGateway() error {
	s.addresses = s.newAddresses()
	handler, err := s.gatewayHandler(s.newDenials())
	if err != nil {
		return err
	}
	l := s.newHTTPListener(handler, 0, 0)
	if peek.Supported { // without, only net/http notices that a client leaves
		l.plain = http1server.New(l.Server)
	}
	if a := s.addresses; a != nil {
		l.addresses, l.ConnContext, l.ConnState = a, a.ConnContext, a.ConnState
	}
	s.listen("gateway", s.config.Gateway, l)
	return nil
}

// newDenials returns the bound on consecutive denials of the gateway, or nil if
// CloseAfter is 0 or less.
func (s *Server) newDenials() *slowclient.Denials {
	if s.config.CloseAfter <= 0 {
		return nil
	}
	return &slowclient.Denials{Max: s.config.CloseAfter}
}

// newAddresses returns the table of the gateway's client addresses, or nil if neither
// denials nor connections are bounded.
func (s *Server) newAddresses() *slowclient.Addresses {
	if s.config.CloseAfter <= 0 && s.config.ConnectionsPerAddress <= 0 {
		return nil
	}
	a := slowclient.NewAddresses(slowclient.AddressOptions{Trusted: s.config.TrustedProxies,
		MaxConnections: s.config.ConnectionsPerAddress, RefuseFor: s.config.RefuseFor})
	s.metrics.ReadAddresses(a.Stats)
	return a
}

func (s *Server) listen(name, address string, service service) {
	s.listeners = append(s.listeners, &listener{name: name, address: address, service: service})
	certs := s.certs
	if name == "grpc" {
		certs = s.grpcTLS
	}
	if certs != nil {
		s.metrics.ReadCertificate(name, certs.expires)
	}
}

// Run opens the listeners and serves until ctx ends, then drains and returns
// nil. An error means that a listener could not be opened or failed;
// everything is closed then.
func (s *Server) Run(ctx context.Context) error {
	if err := s.open(ctx); err != nil {
		return err
	}
	// Background tasks run until the end of the drain.
	beside, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	group, failed := errgroup.WithContext(ctx)
	s.start(beside, group)
	logged := s.runDecisionLog(beside)
	if awaitAll(failed, s.rules.manager.Following(), s.envoyFollowing()) {
		s.becomeReady()
		<-failed.Done() // ctx has ended, or something has failed
	}
	s.drain()
	end()
	logged()
	return group.Wait()
}

// awaitAll waits for all channels, and returns false if ctx ends first.
func awaitAll(ctx context.Context, all ...<-chan struct{}) bool {
	for _, one := range all {
		select {
		case <-one:
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// start runs all tasks that live as long as the server.
func (s *Server) start(beside context.Context, group *errgroup.Group) {
	for _, l := range s.listeners {
		group.Go(l.serve)
	}
	for _, e := range s.config.Exporters {
		group.Go(func() error { e.Run(beside, s.metrics.Registry()); return nil })
	}
	group.Go(func() error { s.rules.manager.Run(beside); return nil })
	group.Go(func() error { s.rules.switched.Run(beside); return nil })
	group.Go(func() error { s.rules.state.keep(beside); return nil })
	group.Go(func() error { s.watchSecrets(beside); return nil })
	group.Go(func() error { s.failOpen.run(beside); return nil })
	if s.live != nil {
		group.Go(func() error { s.live.Run(beside); return nil })
	}
	if s.config.Keys != nil {
		group.Go(func() error { s.config.Keys.Run(beside); return nil })
	}
	if s.envoy != nil {
		group.Go(func() error { s.envoy.Run(beside); return nil })
	}
	if s.gateway != nil {
		group.Go(func() error { s.gateway.Run(beside); return nil })
	}
	if s.keys != nil {
		group.Go(func() error { watchKeys(beside, s.keys, &s.rules.shadows, s.log); return nil })
	}
	if s.addresses != nil {
		group.Go(func() error { watchRefusals(beside, s.addresses.Stats, s.log); return nil })
	}
	for _, store := range s.allStores() {
		log := s.log
		if len(s.config.Stores) > 0 {
			log = log.With("store", store.Label())
		}
		if store.Stats != nil {
			group.Go(func() error { watchEvictions(beside, store.Stats, log); return nil })
		}
		if store.Shared != nil {
			group.Go(func() error { watchBudget(beside, store.Shared, log); return nil })
		}
	}
}

func (s *Server) becomeReady() {
	s.warnOpen()
	s.isReady.Store(true)
	for _, l := range s.listeners {
		l.service.ready()
	}
	close(s.opened)
	s.log.Info("ready")
}

// warnOpen logs the listeners that anyone on the network can use without a token or a
// client certificate.
func (s *Server) warnOpen() {
	if s.httpToken != nil {
		return
	}
	var open []string
	for _, l := range []struct {
		name, address string
		certificates  *certificates
	}{{"http", s.config.HTTP, s.certs}, {"grpc", s.config.GRPC, s.grpcTLS}, {"resp", s.config.RESP, s.certs}} {
		if l.address != "" && !httpapi.Loopback(l.address) && !l.certificates.asksClients() {
			open = append(open, l.name)
		}
	}
	if open != nil {
		s.log.Warn("other machines can reach these listeners without a token, and charge any key through them "+
			"(listen on 127.0.0.1 beside a sidecar, or give --http-token-file or --client-ca)", "listeners", open)
	}
}

// Opened is closed when all listeners are open and the server is ready.
func (s *Server) Opened() <-chan struct{} { return s.opened }

// Addr returns the address of the named listener (http, grpc, resp, admin or gateway), or
// nil. It is valid once Opened is closed.
func (s *Server) Addr(name string) net.Addr {
	for _, l := range s.listeners {
		if l.name == name {
			return l.socket.Addr()
		}
	}
	return nil
}

// Reload reads the rules, tokens, passwords and certificates again, as far as they come
// from files, and opens the decision log again. Invalid files are logged, and the previous version stays in force.
func (s *Server) Reload() {
	s.rules.reload()
	if s.config.DecisionLog != nil {
		s.config.DecisionLog.Reopen()
	}
	if s.envoy != nil {
		s.envoy.Reload()
	}
	if s.config.Keys != nil {
		s.config.Keys.Reload()
	}
	for _, files := range s.secrets {
		files.Reload()
	}
}

func errorAttr(err error) slog.Attr { return slog.String("error", fmt.Sprint(err)) }
