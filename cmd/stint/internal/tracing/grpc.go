package tracing

import (
	"context"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/stintdev/stint/cmd/stint/internal/w3ctrace"
)

// The fields of a trace context, in the lower case of metadata.
var (
	parentField = strings.ToLower(w3ctrace.Parent)
	stateField  = strings.ToLower(w3ctrace.State)
)

// health is the prefix of the methods of the health service, which are not recorded.
const health = "/grpc.health."

// Unary is an interceptor that records unary calls.
func (l *Listener) Unary(ctx context.Context, request any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	if l == nil || strings.HasPrefix(info.FullMethod, health) {
		return next(ctx, request)
	}
	ctx, span := l.beginCall(ctx, info.FullMethod)
	if span == nil {
		return next(ctx, request)
	}
	return recordCall(ctx, span, request, next)
}

func recordCall(ctx context.Context, span trace.Span, request any, next grpc.UnaryHandler) (any, error) {
	code := codes.Internal // of a panic
	defer func() {
		span.SetAttributes(attribute.Int("rpc.grpc.status_code", int(code)))
		if isServerError(code) {
			fail(span, code.String())
		}
		span.End()
	}()
	answer, err := next(ctx, request)
	code = status.Code(err)
	return answer, err
}

// Messages begins the span of messages of a stream that are decided together. They have no
// trace context of their own: that of the stream decides whether they are recorded, and they
// are counted as one request. The caller ends the span, which is nil if they are not recorded.
func (l *Listener) Messages(stream context.Context, method string) (context.Context, trace.Span) {
	if l == nil {
		return stream, nil
	}
	return l.beginCall(stream, method)
}

func (l *Listener) beginCall(ctx context.Context, method string) (context.Context, trace.Span) {
	var states []string
	parents := metadata.ValueFromIncomingContext(ctx, parentField)
	if parents != nil {
		states = metadata.ValueFromIncomingContext(ctx, stateField)
	}
	return l.begin(ctx, parents, states, func() (string, []attribute.KeyValue) {
		return strings.TrimPrefix(method, "/"), []attribute.KeyValue{attribute.String("rpc.system", "grpc")}
	})
}

// isServerError reports whether a code is the fault of the server.
func isServerError(code codes.Code) bool {
	switch code {
	case codes.Unknown, codes.DeadlineExceeded, codes.Unimplemented, codes.Internal, codes.Unavailable, codes.DataLoss:
		return true
	}
	return false
}
