package server

import (
	"context"
	"fmt"
	"net"
)

// service answers on one listener.
type service interface {
	// serve accepts connections until the service is drained or stopped,
	// and then returns nil.
	serve(l net.Listener) error
	// ready and unready tell clients whether to come.
	ready()
	unready()
	// drain stops accepting, waits for the requests in flight and returns
	// an error when ctx ends first.
	drain(ctx context.Context) error
	// stop cuts what is still open.
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
			closeAll(s.listeners[:i])
			return fmt.Errorf("%s: %w", l.name, err)
		}
		l.socket = socket
		s.log.Info("listening", "name", l.name, "addr", socket.Addr().String())
	}
	return nil
}

func closeAll(listeners []*listener) {
	for _, l := range listeners {
		_ = l.socket.Close() // nothing was accepted on it
	}
}

func (l *listener) serve() error {
	if err := l.service.serve(l.socket); err != nil {
		return fmt.Errorf("%s: %w", l.name, err)
	}
	return nil
}
