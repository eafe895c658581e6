package grpclimit

import (
	"context"
	"errors"
	"fmt"
	"io"

	"google.golang.org/grpc"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/httplimit"
)

// ClientOptions says how the calls of a [Client] are counted. The zero value counts by
// the target of the connection, and delays the calls that are over the limit.
type ClientOptions struct {
	// Key, if not nil, returns the key that a call is counted under. If it returns "",
	// the key is the target of the connection. An error means that the call cannot be
	// decided.
	Key func(ctx context.Context, target, method string) (string, error)
	// Cost returns how many units a call or a message takes, at least 0; 0 passes it
	// uncounted. message is nil when a stream opens. Defaults to 1.
	Cost func(ctx context.Context, method string, message any) int64
	// Refuse fails a call that is over the limit at once, with RESOURCE_EXHAUSTED as a
	// server would, instead of delaying it.
	Refuse bool
	// Messages also counts each message that is sent on a client stream. A refused
	// message is not sent, and the stream stays open.
	Messages bool
	// OnError returns the error of a call that could not be decided, or whose deadline
	// comes before its turn. It may log err, and return nil to let the call pass.
	// Defaults to [ErrorStatus], but to DEADLINE_EXCEEDED if the call's own deadline
	// ends the wait.
	OnError func(ctx context.Context, err error) error
}

// Client limits the calls that this program sends: it delays calls that are over the
// limit until they may pass, or refuses them. Make one with [NewClient]: a nil or zero
// Client fails every call with INTERNAL. It is safe for concurrent use.
type Client struct {
	limiter *stint.Limiter
	options ClientOptions
	counter *httplimit.Counter
}

// NewClient returns a client under a limiter. The error reports a limiter without limits.
func NewClient(limiter *stint.Limiter, o ClientOptions) (*Client, error) {
	counter, err := httplimit.NewCounter(limiter, httplimit.Options{})
	if err != nil {
		return nil, fmt.Errorf("grpclimit: %w", errors.Unwrap(err)) // without the name of package httplimit
	}
	return &Client{limiter: limiter, options: o, counter: counter}, nil
}

// Options returns both interceptors as dial options. They run after interceptors that
// were added before, and count a call once, even if grpc-go sends it again under a
// retry policy.
func (c *Client) Options() []grpc.DialOption {
	return []grpc.DialOption{grpc.WithChainUnaryInterceptor(c.Unary), grpc.WithChainStreamInterceptor(c.Stream)}
}

// Unary is a [grpc.UnaryClientInterceptor].
func (c *Client) Unary(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoker grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	if err := c.admit(ctx, cc.Target(), method, req); err != nil {
		return err
	}
	return invoker(ctx, method, req, reply, cc, opts...)
}

// Stream is a [grpc.StreamClientInterceptor].
func (c *Client) Stream(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	if err := c.admit(ctx, cc.Target(), method, nil); err != nil {
		return nil, err
	}
	stream, err := streamer(ctx, desc, cc, method, opts...)
	if err != nil || !c.options.Messages || !desc.ClientStreams {
		return stream, err
	}
	paced := &pacedStream{ClientStream: stream, client: c, target: cc.Target(), method: method, oneAnswer: !desc.ServerStreams}
	paced.waits, paced.end = context.WithCancelCause(ctx)
	return paced, nil
}

// pacedStream counts the messages that are sent.
type pacedStream struct {
	grpc.ClientStream

	client         *Client
	target, method string
	oneAnswer      bool // the server sends one answer, which ends the stream
	// waits is the context of the call, canceled when the stream is known to have
	// ended. The stream's own Context is no substitute: calling it would disable
	// retries.
	waits context.Context //nolint:containedctx // the context of the stream
	end   context.CancelCauseFunc
}

// SendMsg waits until m may pass and sends it. It returns io.EOF if the stream ends
// first.
func (s *pacedStream) SendMsg(m any) error {
	err := s.client.admit(s.waits, s.target, s.method, m)
	switch {
	case err == nil:
		return s.ClientStream.SendMsg(m)
	case errors.Is(context.Cause(s.waits), io.EOF):
		return io.EOF
	}
	return err
}

// RecvMsg cancels a waiting SendMsg when the stream has ended.
func (s *pacedStream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	if err != nil || s.oneAnswer {
		s.end(io.EOF)
	}
	return err
}

// admit returns nil once the call may be sent, or the status that refuses it.
func (c *Client) admit(ctx context.Context, target, method string, message any) error {
	if c == nil || c.counter == nil {
		return ErrorStatus(errNotMade).Err()
	}
	cost := c.cost(ctx, method, message)
	if cost == 0 {
		return nil
	}
	key, err := c.key(ctx, target, method)
	if err != nil {
		return c.fail(ctx, err)
	}
	if c.options.Refuse {
		return c.allow(ctx, key, method, cost)
	}
	if err := c.limiter.WaitN(ctx, key, cost); err != nil {
		return c.fail(ctx, err)
	}
	return nil
}

func (c *Client) allow(ctx context.Context, key, method string, cost int64) error {
	answer, err := c.counter.DecideKeys(ctx, cost, key)
	if err != nil {
		return c.fail(ctx, err)
	}
	if !answer.Allowed() {
		d := newDenial(&answer, method)
		return d.status().Err()
	}
	return wait(ctx, answer.Decision.Delay)
}

// fail translates an error. A wait that would pass the deadline ([stint.KindWait]) counts
// as a deadline that passed. A store timeout counts as a store failure, unless the
// context of the call has ended.
func (c *Client) fail(ctx context.Context, err error) error {
	if c.options.OnError != nil {
		return c.options.OnError(ctx, err)
	}
	coded, ok := errors.AsType[*stint.Error](err)
	foreseen := ok && coded.Kind == stint.KindWait
	if foreseen || ctx.Err() != nil && errors.Is(err, context.DeadlineExceeded) {
		return ended(err).Err()
	}
	return ErrorStatus(err).Err()
}

func (c *Client) key(ctx context.Context, target, method string) (string, error) {
	if c.options.Key != nil {
		if key, err := c.options.Key(ctx, target, method); key != "" || err != nil {
			return key, err
		}
	}
	return target, nil
}

func (c *Client) cost(ctx context.Context, method string, message any) int64 {
	if c.options.Cost == nil {
		return 1
	}
	return c.options.Cost(ctx, method, message)
}
