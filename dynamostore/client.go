package dynamostore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync"
	"sync/atomic"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/smithy-go/logging"

	"github.com/stintdev/stint"
)

// client sends calls to DynamoDB.
type client struct {
	api   *dynamodb.Client
	http  aws.HTTPClient
	table string
	place string // the table and where it is, for messages

	mu      sync.Mutex
	running context.Context    //nolint:containedctx // its end cancels the calls in flight
	stop    context.CancelFunc // ends running
	closed  bool               // guarded by mu: the store is closed
}

// maxIdle is the number of connections that stay open between calls. DynamoDB answers one
// call at a time on a connection.
const maxIdle = 128

func newClient(o *Options) (*client, error) {
	c := &client{table: o.Table}
	c.running, c.stop = context.WithCancel(context.Background())
	settings := o.Config
	if settings == nil {
		read, err := config.LoadDefaultConfig(context.Background(), config.WithLogger(sdkLog{o.Logger}))
		if err != nil {
			return nil, &stint.Error{
				Code: stint.CodeInvalid, Kind: "options", Problem: "dynamostore: the SDK of AWS cannot read its configuration",
				Mend: "check AWS_PROFILE and the files that AWS_CONFIG_FILE and AWS_SHARED_CREDENTIALS_FILE name", Err: err,
			}
		}
		settings = &read
	}
	c.api = dynamodb.NewFromConfig(*settings, func(d *dynamodb.Options) {
		c.http = ownConnections(d.HTTPClient)
		d.HTTPClient = c
		d.Retryer = aws.NopRetryer{} // the store decides what is repeated
		d.RetryMaxAttempts = 1
		d.DisableClockSkewCorrection = true // see clockSlack
		d.Logger = sdkLog{o.Logger}
		if d.Credentials != nil {
			d.Credentials = credentials{d.Credentials}
		}
		if o.Region != "" {
			d.Region = o.Region
		}
		if o.Endpoint != "" {
			d.BaseEndpoint = &o.Endpoint
		}
	})
	region := c.api.Options().Region
	if region == "" {
		return nil, wrongOption("no region is given", "give it in the URL (dynamodb://table?region=eu-west-1) or as AWS_REGION")
	}
	c.place = "the table " + c.table + " of DynamoDB in " + region
	if endpoint := c.api.Options().BaseEndpoint; endpoint != nil {
		c.place += " at " + hostOf(*endpoint)
	}
	return c, nil
}

// hostOf returns the host and port of an endpoint. One of the environment may have a
// password, and the text becomes part of messages.
func hostOf(endpoint string) string {
	u, err := url.Parse(endpoint)
	if err != nil || u.Host == "" {
		return "another endpoint"
	}
	return u.Host
}

// ownConnections returns a client with connections of its own, of which enough stay open,
// and with the authorities and the proxy of the given one. A client of the program's own making is
// used as it is.
func ownConnections(given aws.HTTPClient) aws.HTTPClient {
	if given == nil {
		given = awshttp.NewBuildableClient()
	}
	built, ok := given.(*awshttp.BuildableClient)
	if !ok {
		return given
	}
	transport := built.GetTransport() // a copy
	transport.MaxIdleConns, transport.MaxIdleConnsPerHost = maxIdle, maxIdle
	return &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// sdkLog writes what the SDK logs, which it writes to standard error by default.
type sdkLog struct{ to *slog.Logger }

func (l sdkLog) Logf(class logging.Classification, format string, args ...any) {
	l.to.Debug("the SDK of AWS logs", "class", string(class), "text", fmt.Sprintf(format, args...))
}

// credentials marks the errors of the SDK's chain of credentials.
type credentials struct{ aws.CredentialsProvider }

func (p credentials) Retrieve(ctx context.Context) (aws.Credentials, error) {
	c, err := p.CredentialsProvider.Retrieve(ctx)
	if err != nil {
		return c, &noCredentials{err}
	}
	return c, nil
}

// noCredentials is the error of a call without credentials. Nothing was sent.
type noCredentials struct{ error }

func (e *noCredentials) Unwrap() error { return e.error }

// progress says how far a call got.
type progress struct{ connected atomic.Bool }

type progressKey struct{}

// Do implements [aws.HTTPClient]. A request that got no connection was certainly not sent.
func (c *client) Do(r *http.Request) (*http.Response, error) {
	ctx := r.Context()
	if p, ok := ctx.Value(progressKey{}).(*progress); ok {
		trace := &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { p.connected.Store(true) }}
		if _, plain := c.http.(*http.Client); !plain { // a client of the program's own may not trace
			p.connected.Store(true)
		}
		r = r.WithContext(httptrace.WithClientTrace(ctx, trace))
	}
	return c.http.Do(r)
}

// do calls f, which sends one call, and explains its error: see explain. Stop and close
// cancel f.
func (c *client) do(ctx context.Context, f func(context.Context) error) error {
	c.mu.Lock()
	running := c.running
	c.mu.Unlock()
	if running.Err() != nil {
		return &stint.Error{Code: stint.CodeUnavailable, Kind: "connection", Problem: "the connections to " + c.place + " are closed"}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(running, cancel)()
	return c.send(ctx, f)
}

// read is do of a call that only reads. If its connection breaks, it is sent once more: a connection that
// was idle may be closed by the server while it is used again, and HTTP repeats no POST by itself.
func (c *client) read(ctx context.Context, f func(context.Context) error) error {
	err := c.do(ctx, f)
	if broken, ok := errors.AsType[*stint.Error](err); ok && broken.Code == stint.CodeTimeout && broken.Kind == "connection" && ctx.Err() == nil {
		return c.do(ctx, f)
	}
	return err
}

// send is do, also while the client is stopped.
func (c *client) send(ctx context.Context, f func(context.Context) error) error {
	p := &progress{}
	ctx = context.WithValue(ctx, progressKey{}, p)
	if err := f(ctx); err != nil {
		return c.explain(ctx, p.connected.Load(), err)
	}
	return nil
}

// Stop implements [cas.Prober].
func (c *client) Stop(string) {
	c.mu.Lock()
	c.stop()
	c.mu.Unlock()
	c.closeIdle()
}

// Start implements [cas.Prober].
func (c *client) Start(string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running.Err() != nil && !c.closed {
		c.running, c.stop = context.WithCancel(context.Background())
	}
}

// close closes all connections. Calls in flight and later ones fail.
func (c *client) close() {
	c.mu.Lock()
	c.closed = true
	c.stop()
	c.mu.Unlock()
	c.closeIdle()
}

func (c *client) closeIdle() {
	if h, ok := c.http.(*http.Client); ok {
		h.CloseIdleConnections()
	}
}
