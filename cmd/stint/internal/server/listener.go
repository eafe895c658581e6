package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"syscall"
	"time"
)

// service answers on one listener.
type service interface {
	// serve accepts connections until the service is drained or stopped,
	// and then returns nil.
	serve(l net.Listener) error
	// ready and unready tell clients whether to connect.
	ready()
	unready()
	// drain stops accepting and waits for the requests in flight. It returns an error if
	// ctx ends first.
	drain(ctx context.Context) error
	// stop closes all connections that are still open.
	stop()
}

// listener is a service at an address.
type listener struct {
	name    string
	address string
	service service
	socket  net.Listener // once open
}

// open opens every listener, or none.
func (s *Server) open(ctx context.Context) error {
	for i, l := range s.listeners {
		socket, err := new(net.ListenConfig).Listen(ctx, "tcp", l.address)
		if err != nil {
			for _, opened := range s.listeners[:i] {
				_ = opened.socket.Close() // nothing was accepted on it
			}
			if errors.Is(err, syscall.EADDRINUSE) {
				return fmt.Errorf("%s: %w (stop the process that listens there, perhaps another stint serve, or give --%[1]s another address; port 0 picks a free one)", l.name, err)
			}
			return fmt.Errorf("%s: %w", l.name, err)
		}
		l.socket = socket
		s.log.Info("listening", "name", l.name, "addr", socket.Addr().String())
	}
	return nil
}

func (l *listener) serve() error {
	if err := l.service.serve(l.socket); err != nil {
		return fmt.Errorf("%s: %w", l.name, err)
	}
	return nil
}

// drain stops serving without breaking requests. It reports unready, goes on accepting
// for DrainDelay so that load balancers notice first, and then closes the listeners in
// groups. The gateway comes first, so that the health endpoints on http still answer
// while its long requests end; admin with its metrics comes last.
func (s *Server) drain() {
	ctx, cancel := context.WithTimeout(context.Background(), s.config.DrainTimeout)
	defer cancel()
	s.isReady.Store(false)
	for _, l := range s.listeners {
		l.service.unready()
	}
	s.log.Info("draining")
	if s.live != nil {
		s.live.Close() // the streams of live views would never end
	}
	select {
	case <-time.After(s.config.DrainDelay):
	case <-ctx.Done():
	}
	s.drainOnly(ctx, "gateway")
	s.drainOnly(ctx, "http", "grpc", "resp")
	s.drainOnly(ctx, "admin")
	s.log.Info("stopped")
}

// drainOnly drains the named listeners concurrently.
func (s *Server) drainOnly(ctx context.Context, names ...string) {
	var all sync.WaitGroup
	for _, l := range s.listeners {
		if !slices.Contains(names, l.name) {
			continue
		}
		all.Go(func() {
			if err := l.service.drain(ctx); err != nil {
				s.log.Warn("requests cut off: they did not end within the drain time", "name", l.name)
			}
			l.service.stop()
		})
	}
	all.Wait()
}
