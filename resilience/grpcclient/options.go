package grpcclient

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/resilience/breaker"
	"github.com/stintdev/stint/resilience/client"
	"github.com/stintdev/stint/resilience/retry"
)

// Options says which parts a [Client] has. The zero value has none.
type Options struct {
	client.Chain

	// Timeout bounds a unary call: all attempts and the waits between them. An earlier
	// deadline of the context still applies. Zero: no bound.
	Timeout time.Duration

	// Retry repeats unary calls by a policy of these options; its Budget bounds the
	// retries. Its Classify is not called. Nil: no retries.
	Retry *retry.Options

	// Repeatable reports whether a call may be sent more than once. Defaults to calls
	// with an idempotency-key in their metadata, because a method's name does not show
	// whether it is idempotent.
	Repeatable func(ctx context.Context, method string) bool

	// Retryable reports whether a code is worth another attempt. Defaults to UNAVAILABLE
	// and RESOURCE_EXHAUSTED.
	Retryable func(codes.Code) bool

	// OutcomeOf returns what a code tells the breaker about the server. It is not called if
	// the caller gave up. Defaults to [OutcomeOf].
	Outcome func(codes.Code) breaker.Outcome

	// Key returns the Limiter's key for an attempt. Defaults to the target of the
	// connection.
	Key func(ctx context.Context, target, method string) string
}

// OutcomeOf returns what a code tells about the server. UNAVAILABLE, DEADLINE_EXCEEDED,
// INTERNAL, UNKNOWN and DATA_LOSS are failures. CANCELED is ignored. All other codes are
// successes.
func OutcomeOf(c codes.Code) breaker.Outcome {
	switch c {
	case codes.Unavailable, codes.DeadlineExceeded, codes.Internal, codes.Unknown, codes.DataLoss:
		return breaker.Failure
	case codes.Canceled:
		return breaker.Ignored
	}
	return breaker.Success
}

func retryable(c codes.Code) bool { return c == codes.Unavailable || c == codes.ResourceExhausted }

func repeatable(ctx context.Context, _ string) bool {
	md, _ := metadata.FromOutgoingContext(ctx)
	keys := md.Get("idempotency-key")
	return len(keys) > 0 && keys[0] != ""
}

func (o *Options) setDefaults() {
	o.Observer = stint.Observers(o.Observer) // nil instead of a nil pointer
	if o.Repeatable == nil {
		o.Repeatable = repeatable
	}
	if o.Retryable == nil {
		o.Retryable = retryable
	}
	if o.Outcome == nil {
		o.Outcome = OutcomeOf
	}
	if o.Key == nil {
		o.Key = func(_ context.Context, target, _ string) string { return target }
	}
}

// Client has the interceptors. Make one with [New]; the zero value has no parts. It is
// safe for concurrent use.
type Client struct {
	options Options
	policy  *retry.Policy // nil: no retries
	once    sync.Once     // sets the defaults of a zero client
}

// New returns a client of these parts. The error lists every invalid option.
func New(o Options) (*Client, error) {
	o.setDefaults()
	c := &Client{options: o}
	c.once.Do(func() {})
	var wrong error
	if o.Timeout < 0 {
		wrong = fmt.Errorf("grpcclient: Timeout: is %v, which is below 0", o.Timeout)
	}
	if o.Retry != nil {
		with := *o.Retry
		with.Classify = nil // try marks its errors with retry.After and retry.Permanent
		policy, err := c.options.RetryPolicy(with)
		c.policy, wrong = policy, errors.Join(wrong, err)
	}
	if wrong != nil {
		return nil, wrong
	}
	return c, nil
}

// Options returns both interceptors as options of a connection. They run after
// interceptors that were added before. Add an interceptor that reopens streams before
// these: for them a stream ends when the first attempt ends.
func (c *Client) Options() []grpc.DialOption {
	return []grpc.DialOption{grpc.WithChainUnaryInterceptor(c.Unary), grpc.WithChainStreamInterceptor(c.Stream)}
}

// result names how a call ended: "OK", "UNAVAILABLE", "refused", "canceled".
func result(err error) string {
	if errors.Is(err, client.ErrRefused) {
		return "refused"
	}
	code := status.Code(err)
	if code == codes.Canceled {
		return "canceled"
	}
	return codeName(code)
}
