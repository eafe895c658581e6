package grpclimit

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/httplimit"
)

// Messages for internal failures.
const (
	unavailable = "the limit cannot be checked at the moment"
	unchecked   = "the limit could not be checked"
)

// storeRetry is the RetryInfo while a store fails. The duration of the failure is
// unknown; one second is enough for a restart.
const storeRetry = time.Second

// ErrorStatus returns the status of a call that could not be decided: INVALID_ARGUMENT
// with the reason if the call is at fault; UNAUTHENTICATED for
// [httplimit.ErrInvalidToken]; CANCELED or DEADLINE_EXCEEDED if its
// context ended; UNAVAILABLE with RetryInfo if the store failed or the time ran out;
// INTERNAL otherwise. UNAVAILABLE and INTERNAL do not contain the cause, because it may
// name internal hosts. If err is already a gRPC status, ErrorStatus returns it
// unchanged.
func ErrorStatus(err error) *status.Status {
	coded, ok := errors.AsType[*stint.Error](err)
	if !ok {
		return uncoded(err)
	}
	switch coded.Code {
	case stint.CodeInvalid:
		return status.New(codes.InvalidArgument, coded.Error())
	case stint.CodeCanceled:
		return ended(err)
	case stint.CodeUnavailable, stint.CodeTimeout, stint.CodeExhausted, stint.CodeContended:
		return withDetails(status.New(codes.Unavailable, unavailable), retryInfo(storeRetry)...)
	case stint.CodeInternal, stint.CodeConflict: // INTERNAL, below; requests that are limited have no ids
	}
	return status.New(codes.Internal, unchecked)
}

func uncoded(err error) *status.Status {
	if errors.Is(err, httplimit.ErrInvalidToken) {
		return status.New(codes.Unauthenticated, httplimit.ErrInvalidToken.Error())
	}
	if s, ok := status.FromError(err); ok {
		return s
	}
	return status.New(codes.Internal, unchecked)
}

// ended returns the status of a call whose context ended while it waited.
func ended(err error) *status.Status {
	if errors.Is(err, context.DeadlineExceeded) {
		return status.New(codes.DeadlineExceeded, "the deadline of the call passed before its turn came")
	}
	return status.New(codes.Canceled, "the call was canceled before its turn came")
}

// wait waits for the delay of a leaky bucket, or until ctx ends.
func wait(ctx context.Context, delay time.Duration) error {
	if delay <= 0 {
		return nil
	}
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ended(ctx.Err()).Err()
	}
}
