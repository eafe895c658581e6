// Package http1server serves the plain requests of HTTP/1.1 connections without TLS, and
// hands every other connection to an [http.Server]. Use it in front of a handler for which
// the server's own work is a large part of each request, such as a reverse proxy.
//
// The problem: the server of net/http starts a second goroutine for each request, which
// watches for the client to leave, and it parses, copies, sorts and formats more than a
// request without a body needs. That takes as long as forwarding the request. But its
// parser and its bounds have withstood years of hostile clients, and a second parser that
// read one byte differently would let requests be smuggled past the rules.
//
// The approach: the package reads the head of a request, and serves the request only if it
// is plain (see head.parse). A plain request has one meaning: every server
// that understands HTTP/1.1 reads it in the same way. With the first request that is not
// plain, the connection and all bytes that were read go to the http.Server, which serves the
// connection to its end. So net/http judges everything that is ambiguous, malformed, large
// or slow.
//
// It promises what net/http does for the same handler: the same [http.Request], the same
// bytes of the response, the same timeouts, hooks and shutdown. Differences:
//
//   - A handler must not use the request, or the header of the response, after it has
//     returned. It may keep the context of the request, the values of fields, and their lists.
//   - A Transfer-Encoding or an invalid Content-Length in the header of the response is
//     ignored.
//   - The server watches for clients that leave only if connections have the methods of
//     [Watched]; if not, the context of a request does not end before its handler.
package http1server

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stintdev/stint/cmd/stint/internal/burst"
)

// Watched is a connection that notices when its client leaves while a request is served. It
// then ends the context that the hook [http.Server.ConnContext] made.
type Watched interface {
	BeginRequest()
	EndRequest()
}

// Server serves connections. Make one with [New]. It is safe for concurrent use.
type Server struct {
	http     *http.Server
	handed   chan net.Conn // to the http.Server
	draining atomic.Bool
	writes   *burst.Writes

	mu    sync.Mutex
	conns map[*conn]struct{} // guarded by mu
}

// New returns a server with the handler, timeouts, hooks and log of s, which serves what is
// not plain. It obeys ReadHeaderTimeout, IdleTimeout, BaseContext, ConnContext, ConnState
// and ErrorLog. The http.Server must have no ReadTimeout and no WriteTimeout: give
// connections deadlines of their own.
func New(s *http.Server) *Server {
	return &Server{http: s, handed: make(chan net.Conn), writes: burst.New(), conns: map[*conn]struct{}{}}
}

// Serve accepts connections until the server is closed, and returns the error of
// [http.Server.Serve]. Call it once.
func (s *Server) Serve(l net.Listener) error {
	h := &handover{Listener: l, server: s, ended: make(chan struct{})}
	base := context.Background()
	if s.http.BaseContext != nil {
		base = s.http.BaseContext(l)
	}
	go h.accept(context.WithValue(base, http.ServerContextKey, s.http))
	return s.http.Serve(h)
}

// handover is the listener of the http.Server. It accepts the connections that are handed
// over.
type handover struct {
	net.Listener

	server *Server
	once   sync.Once
	ended  chan struct{}
	err    error // why it ended
}

// Accept implements [net.Listener].
func (h *handover) Accept() (net.Conn, error) {
	select {
	case c := <-h.server.handed:
		return c, nil
	case <-h.ended:
		return nil, h.err
	}
}

// Close implements [net.Listener].
func (h *handover) Close() error {
	h.end(net.ErrClosed)
	return h.Listener.Close()
}

func (h *handover) end(err error) {
	h.once.Do(func() {
		h.err = err
		close(h.ended)
	})
}

// The pauses after an error that may pass, such as too many open files, are those of
// net/http.
const firstPause, longestPause = 5 * time.Millisecond, time.Second

// accept serves the connections of the inner listener.
func (h *handover) accept(base context.Context) {
	pause := firstPause
	for {
		raw, err := h.Listener.Accept()
		var network net.Error
		switch {
		case err == nil:
			pause = firstPause
			go h.server.newConn(base, raw, h.ended).serve()
		case errors.As(err, &network) && network.Temporary(): //nolint:staticcheck // net/http asks the same
			time.Sleep(pause)
			pause = min(2*pause, longestPause)
		default:
			h.end(err)
			return
		}
	}
}

// Shutdown stops accepting, closes idle connections and waits for the requests in flight. It
// returns an error if ctx ends first.
func (s *Server) Shutdown(ctx context.Context) error {
	s.draining.Store(true)
	s.closeIdle()
	err := s.http.Shutdown(ctx)
	for pause := time.Millisecond; err == nil && !s.closeIdle(); pause = min(2*pause, 100*time.Millisecond) {
		select {
		case <-ctx.Done():
			err = ctx.Err()
		case <-time.After(pause):
		}
	}
	return err
}

// unused is how long a new connection without a request is not idle: its first request may
// be on its way. It is that of net/http.
const unused = 5 * time.Second

// closeIdle closes the idle connections, and reports whether no other is left.
func (s *Server) closeIdle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		switch http.ConnState(c.state.Load()) {
		case http.StateNew:
			if time.Since(c.began) < unused {
				continue
			}
		case http.StateIdle:
		case http.StateActive, http.StateHijacked, http.StateClosed:
			continue
		}
		_ = c.raw.Close() // ends its goroutine too
		delete(s.conns, c)
	}
	return len(s.conns) == 0
}

// Close closes the connections that the http.Server does not have. Close that one too.
func (s *Server) Close() {
	s.draining.Store(true)
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		_ = c.raw.Close() // nothing can be done about its error
	}
}

func (s *Server) add(c *conn) {
	s.mu.Lock()
	s.conns[c] = struct{}{}
	s.mu.Unlock()
}

func (s *Server) remove(c *conn) {
	s.mu.Lock()
	delete(s.conns, c)
	s.mu.Unlock()
}
