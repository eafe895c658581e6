package resp

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/secret"
)

// Options configure a [Server].
type Options struct {
	// Store decides; required.
	Store stint.Store
	// Token, if not nil, is the password that AUTH and HELLO require. After a change
	// of the token, authenticated connections stay authenticated, as in Redis.
	Token *secret.Text
	// Observe, if not nil, receives a report of every call of the store.
	Observe func(Batch)
	// Failed, if not nil, receives the error of a call of the store that made no
	// decision, except mistakes of clients.
	Failed func(*stint.Error)

	// MaxConns bounds the number of open connections. Defaults to 10,000.
	MaxConns int
	// IdleTimeout is how long a connection may be silent between commands. It may end
	// up to an eighth earlier. Defaults to 10 minutes.
	IdleTimeout time.Duration
	// CommandTimeout is how long a command may take to arrive, and how long
	// a new connection may take to authenticate when there is a Token.
	// Defaults to 5 s.
	CommandTimeout time.Duration
	// WriteTimeout is how long a client may take to read answers. The server allows up
	// to twice that. Defaults to 5 s.
	WriteTimeout time.Duration

	// Logger defaults to a logger that discards.
	Logger *slog.Logger
}

func (o Options) setDefaults() Options {
	for _, d := range []struct {
		field *time.Duration
		value time.Duration
	}{{&o.IdleTimeout, 10 * time.Minute}, {&o.CommandTimeout, 5 * time.Second}, {&o.WriteTimeout, 5 * time.Second}} {
		if *d.field == 0 {
			*d.field = d.value
		}
	}
	if o.MaxConns == 0 {
		o.MaxConns = 10_000
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// Server serves the Redis protocol. Make one with [New].
type Server struct {
	options  Options
	limits   limits
	commands []*command
	byName   map[string]*command
	works    sync.Pool // of *work
	lastID   atomic.Int64

	base     context.Context //nolint:containedctx // of every call of the store; canceled by Stop
	cut      context.CancelFunc
	draining atomic.Bool
	drainEnd atomic.Pointer[time.Time] // read deadline of all connections after Drain
	serving  sync.WaitGroup            // one for each connection

	mu struct {
		sync.Mutex
		listener net.Listener
		conns    map[*conn]struct{}
	}
}

// New returns a server. Call Serve to accept connections.
func New(options Options) *Server {
	s := &Server{options: options.setDefaults(), works: sync.Pool{New: newWork}}
	s.limits = newLimits()
	s.commands, s.byName = allCommands(), map[string]*command{}
	for _, c := range s.commands {
		s.byName[c.name] = c
	}
	s.base, s.cut = context.WithCancel(context.Background())
	s.mu.conns = map[*conn]struct{}{}
	return s
}

// Serve accepts connections until Drain or Stop, and then returns nil. It
// closes l.
func (s *Server) Serve(l net.Listener) error {
	defer l.Close()
	if !s.listenOn(l) {
		return nil
	}
	var pause time.Duration
	for {
		nc, err := l.Accept()
		switch {
		case err == nil:
			pause = 0
			s.accept(nc)
		case s.draining.Load():
			return nil
		case errors.Is(err, net.ErrClosed):
			return err
		default:
			// Usually out of file descriptors. Retry, with increasing pauses, until
			// some are closed.
			pause = min(max(2*pause, 5*time.Millisecond), time.Second)
			s.options.Logger.Warn("connection not accepted", "error", err.Error())
			s.wait(pause)
		}
	}
}

func (s *Server) listenOn(l net.Listener) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.listener = l
	return !s.draining.Load()
}

func (s *Server) wait(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.base.Done():
	}
}

// accept serves a connection in its own goroutine, or refuses it if there are MaxConns
// already.
func (s *Server) accept(nc net.Conn) {
	c := &conn{server: s, net: nc, id: s.lastID.Add(1), proto: 2, authorized: s.options.Token == nil}
	if !s.add(c) {
		if _, plain := nc.(*net.TCPConn); plain { // cannot block: no handshake, and one line fits the socket buffer
			_, _ = nc.Write([]byte("-ERR max number of clients reached\r\n"))
		}
		_ = nc.Close()
		return
	}
	go func() {
		defer s.remove(c)
		c.serve()
	}()
}

// add registers a connection. It returns false if there are too many, or the server is
// draining.
func (s *Server) add(c *conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.mu.conns) >= s.options.MaxConns || s.draining.Load() {
		return false
	}
	s.mu.conns[c] = struct{}{}
	s.serving.Add(1)
	return true
}

func (s *Server) remove(c *conn) {
	defer s.serving.Done()
	_ = c.net.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.mu.conns, c)
}
