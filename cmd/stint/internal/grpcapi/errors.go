package grpcapi

import (
	"errors"
	"fmt"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/stintdev/stint"
	stintv1 "github.com/stintdev/stint/api/stint/v1"
	"github.com/stintdev/stint/cmd/stint/internal/decide"
)

// domain is the ErrorInfo domain of Stint's reasons.
const domain = "stint"

func badRequest(format string, args ...any) error {
	return &stint.Error{Code: stint.CodeInvalid, Problem: fmt.Sprintf(format, args...)}
}

// statusOf translates errors to gRPC statuses. No other function does.
func statusOf(err error) *status.Status {
	if s, ok := status.FromError(err); ok {
		return s
	}
	code, kind, message := explain(err)
	s := status.New(code, message)
	if kind == "" {
		return s
	}
	details := []protoadapt.MessageV1{&errdetails.ErrorInfo{Reason: kind, Domain: domain}}
	if failed, ok := errors.AsType[*stint.Error](err); ok && failed.RetryAfter > 0 {
		details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(failed.RetryAfter)})
	}
	if detailed, err := s.WithDetails(details...); err == nil {
		return detailed
	}
	return s
}

// explain returns what a client may know of an error.
func explain(err error) (code codes.Code, kind, message string) {
	if s, ok := status.FromError(err); ok {
		return s.Code(), "", s.Message()
	}
	failed, ok := errors.AsType[*stint.Error](err)
	if !ok {
		return codes.Internal, "", "no decision could be made"
	}
	code = codeOf(failed.Code)
	if failed.Kind == stint.KindCallerBudget || failed.Kind == stint.KindOnceBudget {
		code = codes.ResourceExhausted
	}
	return code, string(failed.Kind), decide.Explain(failed)
}

func codeOf(c stint.Code) codes.Code {
	switch c {
	case stint.CodeInvalid:
		return codes.InvalidArgument
	case stint.CodeUnavailable:
		return codes.Unavailable
	case stint.CodeTimeout:
		return codes.DeadlineExceeded
	case stint.CodeCanceled:
		return codes.Canceled
	case stint.CodeExhausted:
		return codes.ResourceExhausted
	case stint.CodeConflict:
		return codes.AlreadyExists
	case stint.CodeContended:
		return codes.Aborted
	}
	return codes.Internal
}

func failureOf(index int, err error) *stintv1.Failure {
	code, kind, message := explain(err)
	f := &stintv1.Failure{Index: uint32(index), Code: int32(code), Kind: kind, Message: message}
	if failed, ok := errors.AsType[*stint.Error](err); ok {
		f.RetryAfterUs = micros(failed.RetryAfter)
	}
	return f
}

// isFailure reports whether an error of one call should be logged. A status is a mistake
// of the caller.
func isFailure(err error) bool {
	_, isStatus := status.FromError(err)
	return !isStatus && decide.IsFailure(err)
}
