package server

import (
	"context"
	"fmt"
	"runtime/debug"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// recoverUnary keeps a panic in one call from ending the process. grpc-go does not
// recover panics.
func (s *Server) recoverUnary(ctx context.Context, request any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (answer any, err error) {
	defer func() {
		if p := recover(); p != nil {
			answer, err = nil, s.panicked(info.FullMethod, p)
		}
	}()
	return next(ctx, request)
}

// recoverStream is recoverUnary for streams.
func (s *Server) recoverStream(service any, stream grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = s.panicked(info.FullMethod, p)
		}
	}()
	return next(service, stream)
}

func (s *Server) panicked(method string, p any) error {
	s.log.Error("panic serving gRPC", "method", method, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
	return status.Error(codes.Internal, "no decision could be made")
}
