package grpcapi

import (
	"errors"
	"fmt"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/stintdev/stint"
	stintv1 "github.com/stintdev/stint/api/stint/v1"
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
	if detailed, err := s.WithDetails(&errdetails.ErrorInfo{Reason: kind, Domain: domain}); err == nil {
		return detailed
	}
	return s
}

// explain returns what a client may know of an error. The cause of a store failure may
// name internal servers, so only the log gets it.
func explain(err error) (code codes.Code, kind, message string) {
	if s, ok := status.FromError(err); ok {
		return s.Code(), "", s.Message()
	}
	failed, ok := errors.AsType[*stint.Error](err)
	switch {
	case !ok:
		return codes.Internal, "", "no decision could be made"
	case failed.Code == stint.CodeInvalid:
		return codes.InvalidArgument, string(failed.Kind), failed.Error()
	case failed.Kind == stint.KindCallerBudget:
		return codes.ResourceExhausted, string(failed.Kind), failed.Error()
	}
	return codeOf(failed.Code), string(failed.Kind), "no decision could be made: the store fails (" + failed.KindName() + ")"
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
	}
	return codes.Internal
}

func failureOf(index int, err error) *stintv1.Failure {
	code, kind, message := explain(err)
	return &stintv1.Failure{Index: uint32(index), Code: int32(code), Kind: kind, Message: message}
}

// callersMistake reports whether an error concerns its caller alone and is not logged.
// An open circuit breaker counts as one: the guard logged it when it opened.
func callersMistake(err error) bool {
	failed, ok := errors.AsType[*stint.Error](err)
	if !ok {
		_, isStatus := status.FromError(err)
		return isStatus
	}
	return failed.Code == stint.CodeInvalid || failed.Kind == "breaker_open" || failed.Kind == stint.KindCallerBudget
}
