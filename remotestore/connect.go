package remotestore

import (
	"context"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
)

// connect prepares a connection. gRPC dials it in the background, and dials again when
// it breaks.
func connect(s *Store) (*grpc.ClientConn, error) {
	o := &s.options
	transport := insecure.NewCredentials()
	if o.TLS != nil {
		transport = &freshTLS{credentials.NewTLS(o.TLS), o}
	}
	options := []grpc.DialOption{
		grpc.WithTransportCredentials(transport),
		grpc.WithDisableRetry(),         // a repeated take could be charged twice
		grpc.WithDisableServiceConfig(), // so that DNS records cannot turn retries on
		grpc.WithIdleTimeout(0),
		grpc.WithNoProxy(), // HTTPS_PROXY is meant for web traffic
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 20 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second},
			MinConnectTimeout: o.Timeout,
		}),
		// The server allows one ping every 10 s.
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 15 * time.Second, Timeout: max(5*time.Second, o.Timeout), PermitWithoutStream: true}),
	}
	if o.Token != "" || o.TokenSource != nil {
		options = append(options, grpc.WithPerRPCCredentials(&token{s, bearer(o.Token)}))
	}
	return grpc.NewClient(o.Addr, options...)
}

// freshTLS is TLS that reads the files named in the URL again before each handshake,
// so that rotated certificates need no restart.
type freshTLS struct {
	credentials.TransportCredentials // used for all but handshakes

	options *Options
}

// ClientHandshake implements credentials.TransportCredentials.
func (f *freshTLS) ClientHandshake(ctx context.Context, authority string, conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	if f.options.files != nil {
		f.options.files.LogTo(f.options.Logger)
	}
	return credentials.NewTLS(f.options.files.Apply(f.options.TLS)).ClientHandshake(ctx, authority, conn)
}

// Clone implements credentials.TransportCredentials.
func (f *freshTLS) Clone() credentials.TransportCredentials {
	return &freshTLS{f.TransportCredentials.Clone(), f.options}
}

// token adds the store's bearer token to each call.
type token struct {
	store *Store
	fixed map[string]string // the metadata of Options.Token
}

func bearer(token string) map[string]string {
	return map[string]string{"authorization": "Bearer " + token}
}

// GetRequestMetadata implements credentials.PerRPCCredentials.
func (t *token) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	if source := t.store.options.TokenSource; source != nil {
		return bearer(source(t.store.refused.Load())), nil
	}
	return t.fixed, nil
}

// RequireTransportSecurity implements credentials.PerRPCCredentials. It allows a token
// on a plain connection: the operator chooses encryption by the URL.
func (t *token) RequireTransportSecurity() bool { return false }
