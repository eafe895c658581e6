package redisstore

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
)

// dialer makes links to servers, all in the same way.
type dialer struct {
	opts    *Options
	scripts []*script
	log     *slog.Logger

	noScript atomic.Int64 // calls that found their script missing
	login    atomic.Pointer[login]
	work     sync.WaitGroup // what runs in the background
	mu       struct {
		sync.Mutex

		closed bool
	}
}

// login is the credentials of the most recent connection.
type login struct{ username, password string }

// credentials returns the credentials for a new connection to a server (not a
// sentinel). It keeps them, so that errors can hide the password and name the user.
func (d *dialer) credentials(rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
	username, password, err := d.opts.Login()
	if err != nil {
		return rueidis.AuthCredentials{}, &notConnected{fmt.Errorf("credentials: %w", err)}
	}
	d.login.Store(&login{username, password})
	return rueidis.AuthCredentials{Username: username, Password: password}, nil
}

// shown returns the login of the most recent connection.
func (d *dialer) shown() login {
	if l := d.login.Load(); l != nil {
		return *l
	}
	return login{d.opts.Username, d.opts.Password}
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

// open connects to a server, loads the scripts and checks that the server is usable.
// It takes at most Options.Timeout.
func (d *dialer) open(l *link, known *warned) error {
	late := time.AfterFunc(d.opts.Timeout, l.cut)
	option := d.clientOption(l, d.opts.DB)
	option.AuthCredentialsFn = d.credentials
	client, err := rueidis.NewClient(option)
	l.client = client
	if err == nil {
		err = d.inspect(l.ctx, l, known)
	}
	if !late.Stop() {
		return fmt.Errorf("not connected in %v: %w", d.opts.Timeout, cmp.Or(err, context.DeadlineExceeded))
	}
	return err
}

// buffer is the size of a connection's read and write buffers. A full batch fits.
const buffer = 64 << 10

func (d *dialer) clientOption(l *link, db int) rueidis.ClientOption {
	return rueidis.ClientOption{
		InitAddress: []string{l.addr},
		SelectDB:    db,
		ClientName:  "stint",
		TLSConfig:   d.opts.TLS,
		Dialer:      net.Dialer{Timeout: d.opts.Timeout},
		DialCtxFn: func(ctx context.Context, addr string, by *net.Dialer, _ *tls.Config) (net.Conn, error) {
			return l.dial(ctx, addr, by, d.opts.TLSConfig())
		},
		ConnWriteTimeout:    d.opts.Timeout,
		ReadBufferEachConn:  buffer,
		WriteBufferEachConn: buffer,
		PipelineMultiplex:   -1,   // no more connections than that
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

// dial makes one connection of a link, for its client.
func (l *link) dial(ctx context.Context, addr string, d *net.Dialer, secure *tls.Config) (net.Conn, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(l.ctx, cancel)()
	conn, err := connect(ctx, addr, d, secure)
	if err != nil {
		return nil, &notConnected{err}
	}
	return l.keep(conn)
}

func connect(ctx context.Context, addr string, d *net.Dialer, secure *tls.Config) (net.Conn, error) {
	if secure == nil {
		return d.DialContext(ctx, "tcp", addr)
	}
	t := &tls.Dialer{NetDialer: d, Config: secure}
	return t.DialContext(ctx, "tcp", addr)
}

// retire closes a link in the background, after its pending calls have ended.
func (d *dialer) retire(l *link) {
	if !d.background(l.close) {
		l.close()
	}
}

// drop ends a link at once.
func (d *dialer) drop(l *link) {
	l.cut()
	d.retire(l)
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
