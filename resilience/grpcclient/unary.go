package grpcclient

import (
	"context"
	"errors"
	"slices"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/resilience/breaker"
	"github.com/stintdev/stint/resilience/client"
	"github.com/stintdev/stint/resilience/retry"
)

// Unary is a [grpc.UnaryClientInterceptor].
func (c *Client) Unary(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoker grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	c.once.Do(c.options.setDefaults)
	start := time.Now()
	ctx = c.options.ObserveStart(ctx, stint.Event{Kind: stint.EventRequest})
	if c.options.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.options.Timeout)
		defer cancel()
	}
	u := &unary{client: c, method: method, key: c.options.Key(ctx, cc.Target(), method)}
	u.send = func(ctx context.Context, trailer *metadata.MD) error {
		return invoker(ctx, method, req, reply, cc, append(slices.Clip(opts), grpc.Trailer(trailer))...)
	}
	err := u.run(ctx)
	c.options.Observe(ctx, stint.Event{Kind: stint.EventRequest, Attempt: u.attempt, Took: time.Since(start), Result: result(err), Err: err})
	return err
}

// unary is one call with its retries.
type unary struct {
	client      *Client
	method, key string
	send        func(ctx context.Context, trailer *metadata.MD) error
	attempt     int
	before      error
}

func (u *unary) run(ctx context.Context) error {
	if u.client.policy == nil {
		return errors.Unwrap(u.try(ctx))
	}
	return errors.Unwrap(u.client.policy.Do(ctx, u.try))
}

// try makes one attempt. It wraps the error once, in [retry.After] or [retry.Permanent],
// to tell the policy whether to retry.
func (u *unary) try(ctx context.Context) error {
	u.attempt++
	call, err := u.client.options.Begin(ctx, u.key)
	if err != nil {
		return retry.Permanent(u.client.refused(ctx, err, u.attempt, u.before))
	}
	defer call.Release()
	if o := u.client.options.Retry; u.attempt == 1 && o != nil && o.Budget != nil {
		o.Budget.Request()
	}
	ctx = u.client.options.ObserveStart(ctx, stint.Event{Kind: stint.EventAttempt, Attempt: u.attempt})
	var trailer metadata.MD
	start, how := time.Now(), status.Error(codes.Unknown, "it panics")
	defer func() { u.client.reportOutcome(ctx, call, how) }()
	how = u.send(ctx, &trailer)
	u.client.options.Observe(ctx, stint.Event{Kind: stint.EventAttempt, Attempt: u.attempt, Took: time.Since(start), Result: result(how), Err: how})
	if how == nil {
		return nil
	}
	u.before = how
	return u.marked(ctx, how, trailer)
}

// reportOutcome reports the outcome of an attempt to the breaker.
func (c *Client) reportOutcome(ctx context.Context, call *client.Call, err error) {
	if err != nil && errors.Is(ctx.Err(), context.Canceled) {
		call.Answer(breaker.Ignored)
		return
	}
	call.Answer(c.options.Outcome(status.Code(err)))
}

func (u *unary) marked(ctx context.Context, err error, trailer metadata.MD) error {
	s := status.Convert(err)
	if !u.client.options.Retryable(s.Code()) || !u.client.options.Repeatable(ctx, u.method) {
		return retry.Permanent(err)
	}
	wait, again := retryAfter(s, trailer)
	if !again {
		return retry.Permanent(err)
	}
	return retry.After(err, wait)
}

// retryAfter returns the least wait that a server asks for: its pushback (gRFC A6) or, without
// one, its RetryInfo.
func retryAfter(s *status.Status, trailer metadata.MD) (wait time.Duration, again bool) {
	if values := trailer.Get("grpc-retry-pushback-ms"); len(values) > 0 {
		wait, again = retry.ParsePushback(values[0])
		return wait, again && len(values) == 1
	}
	for _, detail := range s.Details() {
		if info, ok := detail.(*errdetails.RetryInfo); ok {
			wait = max(wait, info.GetRetryDelay().AsDuration())
		}
	}
	return wait, true
}
