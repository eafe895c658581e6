package remotestore

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
)

// connect prepares a connection, which is made in the background and made anew
// when it breaks.
func connect(o *Options) (*grpc.ClientConn, error) {
	transport := insecure.NewCredentials()
	if o.TLS != nil {
		transport = credentials.NewTLS(o.TLS)
	}
	options := []grpc.DialOption{
		grpc.WithTransportCredentials(transport),
		grpc.WithDisableRetry(),         // what may have been charged is not sent again
		grpc.WithDisableServiceConfig(), // a name server must not ask for it either
		grpc.WithIdleTimeout(0),
		grpc.WithNoProxy(), // what is meant for web pages in the environment is not for claims
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 20 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second},
			MinConnectTimeout: o.Timeout,
		}),
		// The server allows a ping each 10 s.
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 15 * time.Second, Timeout: max(5*time.Second, o.Timeout), PermitWithoutStream: true}),
	}
	if o.Token != "" {
		options = append(options, grpc.WithPerRPCCredentials(token{"authorization": "Bearer " + o.Token}))
	}
	return grpc.NewClient(o.Addr, options...)
}

// token is the metadata that shows it.
type token map[string]string

// GetRequestMetadata implements credentials.PerRPCCredentials.
func (t token) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return t, nil
}

// RequireTransportSecurity implements credentials.PerRPCCredentials: whether the
// network is to be trusted is for the operator to say, by the URL.
func (t token) RequireTransportSecurity() bool { return false }
