package redisstore

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"time"

	"github.com/redis/rueidis"
)

// ClientOption returns options for rueidis.NewClient that connect to the same servers, for
// a program that also uses them for other things. It is Options.Dial, and the TLS files of
// a URL, that make each connection.
//
// The credentials are those of now: of the functions Credentials and SentinelCredentials,
// which are called with the context, and of the files that a URL named. A client keeps
// them. The program makes a new client when they change.
func (o Options) ClientOption(ctx context.Context) (rueidis.ClientOption, error) {
	if o.Client != nil {
		return rueidis.ClientOption{}, wrongOption("Client is given", "use it, or its own options")
	}
	server, err := o.serverLogin(ctx)
	if err != nil {
		return rueidis.ClientOption{}, err
	}
	sentinel, err := o.sentinelLogin(ctx)
	if err != nil {
		return rueidis.ClientOption{}, err
	}
	timeout := cmp.Or(o.Timeout, defaultTimeout)
	return rueidis.ClientOption{
		InitAddress: o.Addrs, Username: server.username, Password: server.password, SelectDB: o.DB, TLSConfig: o.TLS,
		Sentinel:          rueidis.SentinelOption{MasterSet: o.Master, Username: sentinel.username, Password: sentinel.password, TLSConfig: o.TLS},
		Dialer:            net.Dialer{Timeout: timeout},
		ForceSingleClient: o.Topology == Single,
		DialCtxFn: func(ctx context.Context, addr string, by *net.Dialer, _ *tls.Config) (net.Conn, error) {
			ctx, cancel := context.WithTimeout(ctx, timeout)
			defer cancel()
			return o.connect(ctx, addr, by)
		},
	}, nil
}

const defaultTimeout = time.Second

// connect makes one network connection, encrypted where TLS is set.
func (o *Options) connect(ctx context.Context, addr string, by *net.Dialer) (net.Conn, error) {
	dial := o.Dial
	if dial == nil {
		dial = by.DialContext
	}
	kind := "tcp"
	if unixSocket(addr) {
		kind = "unix"
	}
	network, err := dial(ctx, kind, addr)
	switch {
	case err != nil:
		return nil, err
	case network == nil:
		return nil, errors.New("Options.Dial returned no connection and no error")
	}
	return encrypt(ctx, network, addr, o.freshTLS())
}

// freshTLS returns the TLS configuration for a new connection. It reads the files that
// the URL named again if they have changed, and logs the change. If a changed file is
// invalid, its last valid content stays in use.
func (o *Options) freshTLS() *tls.Config {
	if o.files != nil {
		o.files.LogTo(o.Logger)
	}
	return o.files.Apply(o.TLS)
}
