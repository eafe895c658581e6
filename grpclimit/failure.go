package grpclimit

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/stintdev/stint"
)

// What is said of failures inside.
const (
	unavailable = "the limit cannot be checked at the moment"
	unchecked   = "the limit could not be checked"
)

// storeRetry is when to try again while a store fails, of which nobody knows
// how long it does: time enough for one that restarts.
const storeRetry = time.Second

// ErrorStatus returns the status of a call that could not be decided:
// INVALID_ARGUMENT with the reason when the call itself is at fault; that of
// its context when it ended; UNAVAILABLE with RetryInfo when the store is at
// fault, or time ran out; else INTERNAL. The last two say no more than that,
// since causes may name hosts. An error of a decider that is a status already
// stays as it is.
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
	case stint.CodeUnavailable, stint.CodeTimeout, stint.CodeExhausted:
		return withDetails(status.New(codes.Unavailable, unavailable), retryInfo(storeRetry)...)
	case stint.CodeInternal: // as it stands
	}
	return status.New(codes.Internal, unchecked)
}

func uncoded(err error) *status.Status {
	if s, ok := status.FromError(err); ok {
		return s
	}
	return status.New(codes.Internal, unchecked)
}

// ended is the status of a call whose context ended while it waited.
func ended(err error) *status.Status {
	if errors.Is(err, context.DeadlineExceeded) {
		return status.New(codes.DeadlineExceeded, "the deadline of the call passed before its turn came")
	}
	return status.New(codes.Canceled, "the call was canceled before its turn came")
}

// wait serves the delay of a leaky bucket.
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
