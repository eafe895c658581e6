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

// Options says what a [Server] serves.
type Options struct {
	// Store decides. It must not be nil.
	Store stint.Store
	// Token, when not nil, is the password that AUTH and HELLO ask for.
	// Connections that gave an earlier one stay authenticated, as those of a Redis
	// server do.
	Token *secret.Text
	// Observe, when not nil, is told of every call of the store.
	Observe func(Batch)
	// Failed, when not nil, is told why a call of the store brought no
	// decision, mistakes of clients aside.
	Failed func(*stint.Error)

	// MaxConns bounds the connections at one time. Defaults to 10,000.
	MaxConns int
	// IdleTimeout is how long a connection may be silent between commands.
	// Defaults to 10 minutes; it may end an eighth sooner.
	IdleTimeout time.Duration
	// CommandTimeout is how long a command may take to arrive, and how long
	// a new connection may take to authenticate when there is a Token.
	// Defaults to 5 s.
	CommandTimeout time.Duration
	// WriteTimeout is how long a client may take to read answers, at least;
	// twice as long at most. Defaults to 5 s.
	WriteTimeout time.Duration

	// Logger defaults to one that discards.
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

// Server answers the Redis protocol. Make it by [New].
type Server struct {
	options  Options
	limits   limits
	commands []*command
	byName   map[string]*command
	works    sync.Pool // of *work
	lastID   atomic.Int64

	base     context.Context //nolint:containedctx // of every call of the store, whoever makes it; ended by Stop
	cut      context.CancelFunc
	draining atomic.Bool
	drainEnd atomic.Pointer[time.Time] // when reading ends
	serving  sync.WaitGroup            // one a connection

	mu struct {
		sync.Mutex
		listener net.Listener
		conns    map[*conn]struct{}
	}
}

// New returns a server that serves nothing yet.
func New(options Options) *Server {
	s := &Server{options: options.setDefaults(), works: sync.Pool{New: newWork}}
	s.limits.byQuota = map[quota]stint.Limit{}
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
			// Out of file descriptors, as a rule: some will be closed.
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

// accept serves a connection in a goroutine of its own, unless there are too
// many.
func (s *Server) accept(nc net.Conn) {
	c := &conn{server: s, net: nc, id: s.lastID.Add(1), proto: 2, authorized: s.options.Token == nil}
	if !s.add(c) {
		if _, plain := nc.(*net.TCPConn); plain { // no handshake to wait for, and room for a line
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

// add counts a connection in, unless there are too many or no more are served.
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
