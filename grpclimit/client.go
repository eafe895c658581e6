package grpclimit

import (
	"context"
	"errors"
	"io"
	"sync"

	"google.golang.org/grpc"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/httplimit"
)

// Client limits the calls that this program sends: it delays calls that are over the
// limit until they may pass, or refuses them. Its fields must not change once it is in
// use.
type Client struct {
	// Limiter holds the limits; required, with at least one limit.
	Limiter *stint.Limiter
	// Key returns the key that a call is counted under; not empty. Defaults to the
	// target of the connection.
	Key func(ctx context.Context, target, method string) string
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

	once    sync.Once
	counter httplimit.Counter
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
	if err != nil || !c.Messages || !desc.ClientStreams {
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
	cost := c.cost(ctx, method, message)
	if cost == 0 {
		return nil
	}
	if c.Limiter == nil {
		return c.fail(ctx, &stint.Error{Problem: "no limiter", Mend: "set Limiter"})
	}
	if c.Refuse {
		return c.allow(ctx, c.key(ctx, target, method), method, cost)
	}
	if err := c.Limiter.WaitN(ctx, c.key(ctx, target, method), cost); err != nil {
		return c.fail(ctx, err)
	}
	return nil
}

func (c *Client) allow(ctx context.Context, key, method string, cost int64) error {
	c.once.Do(func() { c.counter.Limiter = c.Limiter })
	answer, err := c.counter.DecideKey(ctx, key, cost)
	if err != nil {
		return c.fail(ctx, err)
	}
	if !answer.Allowed() {
		d := newDenial(&answer, method)
		return d.status().Err()
	}
	return wait(ctx, answer.Decision.Delay)
}

// fail translates an error. A wait that would pass the deadline (kind "wait") counts
// as a deadline that passed. A store timeout counts as a store failure, unless the
// context of the call has ended.
func (c *Client) fail(ctx context.Context, err error) error {
	if c.OnError != nil {
		return c.OnError(ctx, err)
	}
	coded, ok := errors.AsType[*stint.Error](err)
	foreseen := ok && coded.Kind == "wait"
	if foreseen || ctx.Err() != nil && errors.Is(err, context.DeadlineExceeded) {
		return ended(err).Err()
	}
	return ErrorStatus(err).Err()
}

func (c *Client) key(ctx context.Context, target, method string) string {
	if c.Key == nil {
		return target
	}
	return c.Key(ctx, target, method)
}

func (c *Client) cost(ctx context.Context, method string, message any) int64 {
	if c.Cost == nil {
		return 1
	}
	return c.Cost(ctx, method, message)
}
