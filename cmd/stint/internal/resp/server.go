// Package resp serves rate limits over the Redis protocol. Every Redis client works as
// a client of Stint, and a user of the module redis-cell changes only the address.
//
// [Server] answers CL.THROTTLE from any [stint.Store], and the commands that clients
// send when they connect, in RESP2 and RESP3. Commands that arrive together are
// decided by one call of the store and answered by one write, in order. A decision
// does not allocate.
//
// The package bounds the number of connections, the length of a command, the idle time
// of a connection, the time in which a command must arrive, and the time in which a
// client must read answers. Malformed input ends at most its own connection.
package resp

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stintdev/stint/cmd/stint/internal/decide"
	"github.com/stintdev/stint/internal/secret"
)

// Options configures a [Server].
type Options struct {
	// Decider makes the decisions; required.
	Decider *decide.Decider
	// Token, if not nil, is the password that AUTH and HELLO require. After a change
	// of the token, authenticated connections stay authenticated, as in Redis.
	Token *secret.Text
	// Failed, if not nil, receives the error of a call of the store that made no
	// decision, except mistakes of clients.
	Failed func(error)
	// Refused, if not nil, is called for each command that lacks the token, or has a wrong
	// one.
	Refused func()

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
	o.IdleTimeout = cmp.Or(o.IdleTimeout, 10*time.Minute)
	o.CommandTimeout = cmp.Or(o.CommandTimeout, 5*time.Second)
	o.WriteTimeout = cmp.Or(o.WriteTimeout, 5*time.Second)
	o.MaxConns = cmp.Or(o.MaxConns, 10_000)
	if o.Refused == nil {
		o.Refused = func() {}
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
	works    sync.Pool // a pool of *work
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

// drainTime is how long the server reads on for commands that are already on their
// way.
const drainTime = 100 * time.Millisecond

// Drain stops accepting connections, answers the commands that clients have sent, and
// closes each connection when it is silent, at the latest after 100 ms plus the
// current call of the store. If ctx ends first, Drain returns its error.
func (s *Server) Drain(ctx context.Context) error {
	until := time.Now().Add(drainTime)
	s.drainEnd.Store(&until)
	s.close()
	for _, c := range s.all() {
		_ = c.net.SetReadDeadline(until)
	}
	done := make(chan struct{})
	go func() { s.serving.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Stop closes all connections at once.
func (s *Server) Stop() {
	s.close()
	s.cut()
	for _, c := range s.all() {
		_ = c.net.Close()
	}
	s.serving.Wait()
}

// close stops accepting connections.
func (s *Server) close() {
	s.draining.Store(true)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.listener != nil {
		_ = s.mu.listener.Close()
	}
}

func (s *Server) all() (conns []*conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.mu.conns {
		conns = append(conns, c)
	}
	return conns
}
