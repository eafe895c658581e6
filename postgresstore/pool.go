package postgresstore

import (
	"context"
	"errors"
	"log/slog"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/cas"
)

// pool has the connections to the server. It makes sure that the tables exist before the
// first call.
type pool struct {
	conns  *pgxpool.Pool
	schema *schema
	server string // for messages, without a password
	log    *slog.Logger

	mu      sync.Mutex
	running context.Context    //nolint:containedctx // its end cancels the calls in flight
	stop    context.CancelFunc // ends running
	closed  bool               // guarded by mu: the store is closed
}

func newPool(o *Options) (*pool, error) {
	conns, err := pgxpool.NewWithConfig(context.Background(), o.poolConfig())
	if err != nil {
		return nil, wrongOption("Pool is not a configuration of pgxpool.ParseConfig", "make it by ParseURL or by pgxpool.ParseConfig")
	}
	p := &pool{conns: conns, server: o.address(), log: o.Logger, schema: newSchema(o)}
	p.running, p.stop = context.WithCancel(context.Background())
	return p, nil
}

// errStopped is the error of calls while package guard has stopped the server, and after
// Close.
func (p *pool) errStopped() error {
	return &stint.Error{Code: stint.CodeUnavailable, Kind: "connection", Problem: "the connections to " + p.server + " are closed", Err: errNothingSent}
}

// do calls f with a connection, after it has made sure that the tables exist. Errors are
// those of a [cas.Backend]; see [nothingWritten].
func (p *pool) do(ctx context.Context, f func(context.Context, *pgconn.PgConn) error) error {
	p.mu.Lock()
	running := p.running
	p.mu.Unlock()
	if running.Err() != nil {
		return p.errStopped()
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(running, cancel)()
	return p.use(ctx, func(c *pgxpool.Conn) error {
		if err := p.schema.ensure(ctx, p, c.Conn()); err != nil {
			return err
		}
		return f(ctx, c.Conn().PgConn())
	})
}

// ended reports whether calls are to fail, because of Stop or close.
func (p *pool) ended() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.running.Err() != nil
}

// use calls f with a connection and explains the error.
func (p *pool) use(ctx context.Context, f func(*pgxpool.Conn) error) error {
	c, err := p.conns.Acquire(ctx)
	if err != nil {
		return p.explain(ctx, &notConnected{err})
	}
	defer c.Release()
	if err = f(c); err != nil {
		p.learn(ctx, err)
		return p.explain(ctx, err)
	}
	return nil
}

// learn draws conclusions from a failed call. Connections to a server that ended, or that
// is a standby since a failover, are of no more use. Tables and rights are looked at again
// if they may be missing.
func (p *pool) learn(ctx context.Context, err error) {
	answer, ok := errors.AsType[*pgconn.PgError](err)
	switch {
	case !ok && ctx.Err() == nil, ok && (answer.Code == readOnly || answer.Severity == "FATAL"):
		p.conns.Reset()
	case ok && (answer.Code == undefinedTable || answer.Code == undefinedColumn || answer.Code == undefinedFunc || answer.Code == noPrivilege):
		p.schema.ready.Store(false)
	}
}

// Probe implements [cas.Prober]. It uses a connection of its own, so it works while the
// others are closed.
func (p *pool) Probe(ctx context.Context, _ string) error {
	config := p.conns.Config()
	connect := config.ConnConfig.Copy()
	if config.BeforeConnect != nil {
		if err := config.BeforeConnect(ctx, connect); err != nil {
			return p.explain(ctx, &notConnected{err})
		}
	}
	c, err := pgx.ConnectConfig(ctx, connect)
	if err != nil {
		return p.explain(ctx, &notConnected{err})
	}
	defer func() { _ = c.Close(ctx) }() // the answer has been read
	if err := p.schema.check(ctx, p, c); err != nil {
		return p.explain(ctx, err)
	}
	return nil
}

// Stop implements [cas.Prober].
func (p *pool) Stop(string) {
	p.mu.Lock()
	p.stop()
	p.mu.Unlock()
	p.conns.Reset()
}

// Start implements [cas.Prober].
func (p *pool) Start(string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running.Err() != nil && !p.closed {
		p.running, p.stop = context.WithCancel(context.Background())
	}
}

// close closes all connections. Calls in flight and later ones fail.
func (p *pool) close() {
	p.mu.Lock()
	p.closed = true
	p.stop()
	p.mu.Unlock()
	p.conns.Close()
}

var _ cas.Prober = (*pool)(nil)
