package main

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"time"

	"connectrpc.com/connect"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/httplimit"
)

// codes are the codes of Connect for the statuses of httplimit.
var codes = map[int]connect.Code{
	http.StatusBadRequest:          connect.CodeInvalidArgument,
	http.StatusUnauthorized:        connect.CodeUnauthenticated,
	http.StatusForbidden:           connect.CodePermissionDenied,
	http.StatusTooManyRequests:     connect.CodeResourceExhausted,
	http.StatusInternalServerError: connect.CodeInternal,
	http.StatusServiceUnavailable:  connect.CodeUnavailable,
}

// limit limits unary calls, by client address unless an option says otherwise. Streaming
// calls pass: they need an interceptor with a method WrapStreamingHandler.
func limit(limiter *stint.Limiter, o httplimit.Options) (connect.UnaryInterceptorFunc, error) {
	limited, err := httplimit.Limit(limiter, o)
	if err != nil {
		return nil, err
	}
	return func(next connect.UnaryFunc) connect.UnaryFunc {
		return func(ctx context.Context, call connect.AnyRequest) (connect.AnyResponse, error) {
			answer, err := limited.Decide(httpRequest(ctx, call))
			if err == nil && answer.Allowed() {
				err = answer.Wait(ctx) // for the delay of a leaky bucket
			}
			if err != nil {
				return nil, connect.NewError(codes[httplimit.ErrorStatus(err)], errors.New("the limit could not be checked"))
			}
			if !answer.Allowed() {
				denial := connect.NewError(codes[answer.Status()], errors.New("the call was denied"))
				answer.SetHeaders(denial.Meta(), time.Now())
				return nil, denial
			}
			response, err := next(ctx, call)
			if err == nil {
				answer.SetHeaders(response.Header(), time.Now())
			}
			return response, err
		}
	}, nil
}

// httpRequest returns the HTTP request of a call, as far as httplimit reads it.
func httpRequest(ctx context.Context, call connect.AnyRequest) *http.Request {
	r := &http.Request{
		Method:     call.HTTPMethod(),
		URL:        &url.URL{Path: call.Spec().Procedure},
		Header:     call.Header(),
		RemoteAddr: call.Peer().Addr,
	}
	return r.WithContext(ctx)
}
