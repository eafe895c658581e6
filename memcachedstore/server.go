package memcachedstore

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// server has the connections to one server.
type server struct {
	name      string // its address, as all nodes name it
	free      chan struct{}
	evictions atomic.Uint64 // as of the last statistics

	mu     sync.Mutex
	idle   []*conn            // guarded by mu; the one used last is the last
	open   map[*conn]struct{} // guarded by mu: all of them
	closed bool               // guarded by mu
}

func newServer(name string, conns int) *server {
	return &server{name: name, free: make(chan struct{}, conns), open: map[*conn]struct{}{}}
}

// do calls f with a connection. f sends commands and reads all of their answers. The error
// is explained.
//
// A connection that was idle may have ended meanwhile, because the server restarted. With
// repeat, for commands that write nothing, do then calls f again with a new connection.
func (s *server) do(ctx context.Context, repeat bool, f func(*conn) error) (sent bool, err error) {
	select {
	case s.free <- struct{}{}:
		defer func() { <-s.free }()
	case <-ctx.Done():
		return false, s.notSent(ctx, errBusy)
	}
	for {
		c, err := s.acquire(ctx)
		if err != nil {
			return false, err
		}
		reused := c.reused
		err = c.use(ctx, f)
		s.release(c, err, errors.Is(ctx.Err(), context.Canceled))
		if err == nil {
			return true, nil
		}
		if _, answered := errors.AsType[*refusal](err); !repeat || !reused || answered || ctx.Err() != nil {
			return true, s.noAnswer(ctx, err)
		}
	}
}

// acquire returns an idle connection, or a new one.
func (s *server) acquire(ctx context.Context) (*conn, error) {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil, s.stopped()
	}
	if last := len(s.idle) - 1; last >= 0 {
		c := s.idle[last]
		s.idle = s.idle[:last]
		s.mu.Unlock()
		c.reused = true
		return c, nil
	}
	s.mu.Unlock()
	return s.connect(ctx)
}

// connect makes a connection, and makes sure that the store can use the server.
func (s *server) connect(ctx context.Context) (*conn, error) {
	var dialer net.Dialer
	raw, err := dialer.DialContext(ctx, "tcp", s.name)
	if err != nil {
		return nil, s.notSent(ctx, err)
	}
	c := &conn{Conn: raw, in: bufio.NewReaderSize(raw, bufferSize)}
	var told statistics
	err = c.use(ctx, func(c *conn) (err error) {
		told, err = c.askStatistics()
		return err
	})
	if err == nil {
		err = told.usable(s.name)
	} else if _, refused := errors.AsType[*refusal](err); !refused {
		err = fmt.Errorf("%w: %w", errNoGreeting, err)
	}
	if err == nil {
		err = s.adopt(c)
	}
	if err != nil {
		_ = c.Close()
		return nil, s.notSent(ctx, err)
	}
	s.evictions.Store(told.evictions)
	c.incarnation, c.serverTime, c.started = told.run, told.time, time.Now()
	return c, nil
}

// adopt adds a new connection to those that close ends.
func (s *server) adopt(c *conn) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return s.stopped()
	}
	s.open[c] = struct{}{}
	return nil
}

// mostBuffer bounds the memory that an idle connection keeps.
const mostBuffer = 256 << 10

// release takes a connection back. After an error, its remaining answers would be taken for
// those of other calls, so it is closed. The idle ones have most likely ended too, unless
// the caller just left.
func (s *server) release(c *conn, err error, left bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil || s.closed {
		s.dropLocked(c)
		if !left {
			s.dropIdleLocked()
		}
		return
	}
	if cap(c.out) > mostBuffer {
		c.out = nil
	}
	s.idle = append(s.idle, c)
}

func (s *server) dropIdleLocked() {
	for _, c := range s.idle {
		s.dropLocked(c)
	}
	s.idle = nil
}

func (s *server) dropLocked(c *conn) {
	_ = c.Close()
	delete(s.open, c)
}

// close closes all connections. Calls in flight and later ones fail.
func (s *server) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed, s.idle = true, nil
	for c := range s.open {
		s.dropLocked(c)
	}
}

// refresh reads the statistics.
func (s *server) refresh(ctx context.Context) error {
	_, err := s.do(ctx, true, func(c *conn) error {
		told, err := c.askStatistics()
		if err == nil {
			s.evictions.Store(told.evictions)
		}
		return err
	})
	return err
}
