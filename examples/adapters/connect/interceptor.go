package main

import (
	"context"
	"errors"
	"net/netip"
	"time"

	"connectrpc.com/connect"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/httplimit"
)

// limit limits unary calls by client address. Streaming calls pass: they need an
// interceptor with a method WrapStreamingHandler.
func limit(limiter *stint.Limiter) (connect.UnaryInterceptorFunc, error) {
	counter, err := httplimit.NewCounter(limiter, httplimit.Options{})
	if err != nil {
		return nil, err
	}
	return func(next connect.UnaryFunc) connect.UnaryFunc {
		return func(ctx context.Context, request connect.AnyRequest) (connect.AnyResponse, error) {
			peer, err := netip.ParseAddrPort(request.Peer().Addr)
			if err != nil {
				return nil, connect.NewError(connect.CodeInternal, errors.New("the client has no address"))
			}
			answer, err := counter.DecideKeys(ctx, 1, peer.Addr().String())
			if err != nil {
				return nil, connect.NewError(connect.CodeUnavailable, errors.New("no decision was made"))
			}
			if !answer.Allowed() {
				denial := connect.NewError(connect.CodeResourceExhausted, errors.New("rate limit exceeded"))
				answer.SetHeaders(denial.Meta(), time.Now())
				return nil, denial
			}
			response, err := next(ctx, request)
			if err == nil {
				answer.SetHeaders(response.Header(), time.Now())
			}
			return response, err
		}
	}, nil
}
