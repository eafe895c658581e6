package remotestore

import (
	"fmt"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/stintdev/stint"
	stintv1 "github.com/stintdev/stint/api/stint/v1"
)

// fromStatus translates the status of a whole batch into a store's error.
func (s *Store) fromStatus(err error) error {
	st := status.Convert(err)
	e := &stint.Error{Code: codeFrom(st.Code()), Kind: stint.Kind(reasonOf(st)), Problem: "the server at " + s.options.Addr + ": " + line(st.Message())}
	switch {
	case s.closed.Load():
		e.Code, e.Kind, e.Problem = stint.CodeUnavailable, "closed", "the store is closed"
	case st.Code() == codes.Unauthenticated:
		e.Kind, e.Mend = "noauth", "give the token of the server's --http-token-file"
	case st.Code() == codes.PermissionDenied:
		e.Kind = "noperm"
	case st.Code() == codes.Unimplemented:
		e.Kind, e.Mend = "unimplemented", "point at the --grpc listener of a Stint server that is not older than this program"
	case e.Code == stint.CodeTimeout:
		e.Problem = "gave up before the answer came: " + e.Problem
	case st.Code() == codes.Unavailable && e.Kind == "":
		e.Kind = "connection"
	}
	return e
}

// fromFailure translates the failure of one group.
func fromFailure(f *stintv1.Failure) error {
	return &stint.Error{
		Code: codeFrom(codes.Code(uint32(f.GetCode()))), Kind: stint.Kind(f.GetKind()), Problem: line(f.GetMessage()),
		RetryAfter: micros(max(0, f.GetRetryAfterUs())),
	}
}

// line returns the first line of a server's message, cut to 300 characters. The server
// may be any program, so its message is not trusted.
func line(said string) string {
	first, _, _ := strings.Cut(said, "\n")
	return fmt.Sprintf("%.300s", first)
}

// codeFrom translates a gRPC code. A caller without permission gets Unavailable, as if
// there were no store: no claim of it can be decided.
func codeFrom(c codes.Code) stint.Code {
	switch c {
	case codes.InvalidArgument:
		return stint.CodeInvalid
	case codes.Unavailable, codes.Unauthenticated, codes.PermissionDenied, codes.Unimplemented:
		return stint.CodeUnavailable
	case codes.DeadlineExceeded, codes.Canceled: // the server may see the deadline first, and then cancels
		return stint.CodeTimeout
	case codes.ResourceExhausted:
		return stint.CodeExhausted
	case codes.AlreadyExists:
		return stint.CodeConflict
	case codes.Aborted:
		return stint.CodeContended
	}
	return stint.CodeInternal
}

func reasonOf(st *status.Status) string {
	for _, detail := range st.Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok && info.GetDomain() == "stint" {
			return info.GetReason()
		}
	}
	return ""
}

// garbled is the error for an answer that does not match its request.
func garbled(problem string) error {
	return &stint.Error{Code: stint.CodeInternal, Kind: stint.KindGarbled, Problem: "the server's answer: " + problem, Mend: "run the same version here and there"}
}
