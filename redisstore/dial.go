package redisstore

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/stintdev/stint/storekit"
)

// dialer makes the connections to all servers of a store.
type dialer struct {
	opts    *Options
	scripts []*script
	log     *slog.Logger

	noScript atomic.Int64          // calls that found their script missing
	login    atomic.Pointer[login] // of the most recent connection to a server
	sentinel atomic.Pointer[login] // of the most recent connection to a sentinel
	work     sync.WaitGroup        // background goroutines
	mu       struct {
		sync.Mutex

		login  *loginCall // in progress
		closed bool
	}
}

// background runs f in a goroutine that close waits for. It returns false if the
// store is closed.
func (d *dialer) background(f func()) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.mu.closed {
		d.work.Go(f)
	}
	return !d.mu.closed
}

// close prevents new background goroutines and waits for the running ones.
func (d *dialer) close() {
	d.mu.Lock()
	d.mu.closed = true
	d.mu.Unlock()
	d.work.Wait()
}

// prepare connects to the server of a conn, loads the scripts and checks that the server
// is usable. It takes at most Options.Timeout.
func (n *node) prepare(c *conn) error {
	d := n.dialer
	late := time.AfterFunc(d.opts.Timeout, c.cut)
	var err error
	if d.opts.Client != nil {
		err = n.useSharedClient(c)
	} else {
		c.client, err = rueidis.NewClient(d.clientOption(c, d.opts.DB, d.serverLogin, &d.login))
	}
	if err == nil {
		err = d.inspect(c.ctx, c, &n.warned)
	}
	if !late.Stop() {
		return fmt.Errorf("not connected in %v: %w", d.opts.Timeout, cmp.Or(err, context.DeadlineExceeded))
	}
	return err
}

// buffer is the size of a connection's read and write buffers. A full batch fits.
const buffer = 64 << 10

// clientOption returns the options of the client of a conn. fetch returns the credentials
// for a new connection, and last keeps them, so that errors can hide the password and name
// the user.
func (d *dialer) clientOption(c *conn, db int, fetch func(context.Context) (login, error), last *atomic.Pointer[login]) rueidis.ClientOption {
	return rueidis.ClientOption{
		InitAddress: []string{c.addr},
		SelectDB:    db,
		ClientName:  "stint",
		TLSConfig:   d.opts.TLS,
		Dialer:      net.Dialer{Timeout: d.opts.Timeout},
		DialCtxFn: func(ctx context.Context, addr string, by *net.Dialer, _ *tls.Config) (net.Conn, error) {
			ctx, cancel := context.WithTimeout(ctx, d.opts.Timeout)
			defer cancel()
			defer context.AfterFunc(c.ctx, cancel)()
			l, err := fetch(ctx)
			if err != nil {
				return nil, &notConnected{err}
			}
			last.Store(&l)
			return c.dial(ctx, addr, by, d.opts)
		},
		// The client asks for credentials as soon as it has a network connection, but without
		// a context. DialCtxFn has fetched them before.
		AuthCredentialsFn: func(rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
			l := last.Load()
			return rueidis.AuthCredentials{Username: l.username, Password: l.password}, nil
		},
		ConnWriteTimeout:    d.opts.Timeout,
		ReadBufferEachConn:  buffer,
		WriteBufferEachConn: buffer,
		PipelineMultiplex:   -1,   // at most one connection for pipelining
		ForceSingleClient:   true, // which server a call goes to is decided here
		DisableRetry:        true, // a call whose outcome is unknown is never repeated
		DisableCache:        true,

		// Batches are few and large. Each uses a connection of its own and writes and
		// reads it in its own goroutine, which saves two goroutine switches.
		DisableAutoPipelining: true,
		// Idle connections are closed before a server or a load balancer closes them.
		// A call on a connection that was closed while idle cannot be told from a
		// call whose connection broke after the server read it.
		BlockingPoolCleanup: 10 * time.Second,
		BlockingPoolMinSize: 1,
	}
}

// dial makes one network connection for the client of a conn.
func (c *conn) dial(ctx context.Context, addr string, by *net.Dialer, o *Options) (net.Conn, error) {
	network, err := o.connect(ctx, addr, by)
	if err != nil {
		return nil, &notConnected{err}
	}
	return c.track(network)
}

// encrypt makes the TLS handshake on a new connection to a server. Without a
// configuration it returns the connection as it is.
func encrypt(ctx context.Context, plain net.Conn, addr string, config *tls.Config) (net.Conn, error) {
	if config == nil {
		return plain, nil
	}
	if config.ServerName == "" {
		host, _, _ := net.SplitHostPort(addr) // setDefaults has checked the address
		config = config.Clone()
		config.ServerName = host
	}
	secure := tls.Client(plain, config)
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = plain.Close() // nothing of a call was sent
		return nil, err
	}
	return secure, nil
}

// retire closes a conn in the background, after its pending calls have ended.
func (d *dialer) retire(c *conn) {
	if !d.background(c.close) {
		c.close()
	}
}

// drop ends a conn at once.
func (d *dialer) drop(c *conn) {
	c.cut()
	d.retire(c)
}

// every runs f at an interval until ctx ends.
func (d *dialer) every(ctx context.Context, interval time.Duration, f func()) {
	d.background(func() {
		tick := time.NewTicker(interval)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				f()
			}
		}
	})
}

// attempt is a connection attempt that several calls may wait for.
type attempt struct {
	done chan struct{}
	conn *conn // set before done is closed
	err  error
}

// connected returns an entered conn, and connects if there is none. It waits at most
// until ctx ends. The caller must leave the conn when it is done.
func (n *node) connected(ctx context.Context, probe bool) (*conn, error) {
	for {
		c := n.conn.Load()
		if c == nil {
			var err error
			if c, err = n.connect(ctx, probe); err != nil {
				return nil, err
			}
		}
		if c.enter() {
			return c, nil
		}
	}
}

// connect starts or joins a connection attempt and waits for its result.
func (n *node) connect(ctx context.Context, probe bool) (*conn, error) {
	d := n.dial(probe)
	if d == nil {
		return nil, n.refusal()
	}
	select {
	case <-d.done:
		return d.conn, d.err
	case <-ctx.Done():
		return nil, n.unconnected(ctx)
	}
}

// unconnected returns the error of a call whose time ended before there was a
// connection. If the caller's own deadline ended it, the code is CodeTimeout or
// CodeCanceled: the server may be reachable.
func (n *node) unconnected(ctx context.Context) error {
	if errors.Is(context.Cause(ctx), errTimeout) {
		return n.dialer.explain(errTimeout, n.place())
	}
	e := storekit.Ended(ctx, false)
	e.Problem = "no connection to the server " + n.place() + " before the caller's time ended: nothing was charged"
	e.Kind, e.Mend = "connection", "check the server and the network, or allow more time"
	return e
}

// explain returns the error that a caller gets for a failed call. The client of a conn
// reconnects by itself, within the time of the call. If the caller had little time, a
// failed reconnection therefore does not mean that the server is down.
func (n *node) explain(ctx context.Context, err error, c *conn) error {
	if _, never := errors.AsType[*notConnected](err); never && timedOut(err) && over(ctx) {
		return n.unconnected(ctx)
	}
	return n.dialer.explain(err, c.addr)
}

// over reports whether ctx has ended. If the deadline has passed but the context's
// timer is late, over waits for it.
func over(ctx context.Context) bool {
	if deadline, ok := ctx.Deadline(); ok && !time.Now().Before(deadline) {
		<-ctx.Done()
	}
	return ctx.Err() != nil
}

// dial joins the connection attempt in progress, or starts one. It returns nil if the
// node is closed, or if it is stopped and probe is not set.
func (n *node) dial(probe bool) *attempt {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.mu.closed, n.stopped.Load() && !probe:
		return nil
	case n.mu.dialing == nil:
		d := &attempt{done: make(chan struct{})}
		if c := n.conn.Load(); c != nil {
			d.conn = c
			close(d.done)
			return d
		}
		if !n.dialer.background(func() { n.establish(d) }) {
			return nil
		}
		n.mu.dialing = d
	}
	return n.mu.dialing
}

// establish runs a connection attempt and wakes the calls that wait for it.
func (n *node) establish(d *attempt) {
	defer close(d.done)
	ctx, cancel := context.WithTimeout(context.Background(), n.dialer.opts.Timeout)
	defer cancel()
	addr, err := n.resolve(ctx)
	if err != nil {
		n.attemptEnded(d, nil, err)
		return
	}
	c := newConn(addr)
	if !n.begin(d, c) {
		d.err = n.refusal()
		return
	}
	n.attemptEnded(d, c, n.prepare(c))
}

// begin stores the conn of an attempt, so that stop can cut it. It returns false if
// the attempt has been aborted.
func (n *node) begin(d *attempt, c *conn) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	d.conn = c
	return n.mu.dialing == d
}

func (n *node) attemptEnded(d *attempt, c *conn, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.mu.dialing != d:
		err = errCut
	case err == nil:
		n.conn.Store(c)
	}
	if n.mu.dialing == d {
		n.mu.dialing = nil
	}
	if err == nil {
		return
	}
	addr := n.place()
	if c != nil {
		addr = c.addr
		n.dialer.drop(c)
	}
	d.conn, d.err = nil, n.dialer.explain(unsent(err), addr)
}

// unsent marks an error of connecting, which means that no call was sent.
func unsent(err error) error {
	if _, ok := errors.AsType[*rueidis.RedisError](err); ok {
		return err
	}
	return &notConnected{err}
}
