package redisstore

import (
	"context"
	"fmt"
)

// login is the credentials of a connection.
type login struct{ username, password string }

// loginCall is a call of Options.Credentials that several connections wait for.
type loginCall struct {
	done  chan struct{}
	login login // set before done is closed
	err   error
}

// serverLogin returns the credentials for a new connection to a server (not a sentinel).
//
// The caller may have less time than Options.Credentials needs: a guard allows a check 50
// ms, and a token may come from another service. The caller's context therefore bounds
// only the wait. The call itself goes on for at most Options.Timeout, so that a function
// that keeps its token has it for the next connection.
func (d *dialer) serverLogin(ctx context.Context) (login, error) {
	if d.opts.Credentials == nil {
		return login{d.opts.Username, d.opts.Password}, nil
	}
	call := d.callCredentials()
	select {
	case <-call.done:
		return call.login, call.err
	case <-ctx.Done():
		return login{}, fmt.Errorf("credentials: %w", ctx.Err())
	}
}

// callCredentials joins the call of Options.Credentials in progress, or starts one.
func (d *dialer) callCredentials() *loginCall {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.mu.login != nil {
		return d.mu.login
	}
	call := &loginCall{done: make(chan struct{})}
	if d.mu.closed {
		call.err = errCut
		close(call.done)
		return call
	}
	d.mu.login = call
	d.work.Go(func() {
		defer close(call.done)
		ctx, cancel := context.WithTimeout(context.Background(), d.opts.Timeout)
		defer cancel()
		call.login, call.err = d.opts.serverLogin(ctx)
		d.mu.Lock()
		defer d.mu.Unlock()
		d.mu.login = nil
	})
	return call
}

// serverLogin returns the credentials for a new connection to a server.
func (o *Options) serverLogin(ctx context.Context) (login, error) {
	if o.Credentials == nil {
		return login{o.Username, o.Password}, nil
	}
	username, password, err := o.Credentials(ctx)
	if err != nil {
		return login{}, fmt.Errorf("credentials: %w", err)
	}
	return login{username, password}, nil
}

// sentinelLogin returns the credentials for a new connection to a sentinel.
func (o *Options) sentinelLogin(ctx context.Context) (login, error) {
	switch {
	case o.SentinelCredentials != nil:
		username, password, err := o.SentinelCredentials(ctx)
		if err != nil {
			return login{}, fmt.Errorf("credentials of the sentinels: %w", err)
		}
		return login{username, password}, nil
	case o.sentinel == nil:
		return login{o.SentinelUsername, o.SentinelPassword}, nil
	}
	o.sentinel.LogTo(o.Logger)
	return login{o.SentinelUsername, o.sentinel.Fresh()}, nil
}

// lastLogin returns the login of the most recent connection to a server.
func (d *dialer) lastLogin() login {
	if l := d.login.Load(); l != nil {
		return *l
	}
	return login{d.opts.Username, d.opts.Password}
}
