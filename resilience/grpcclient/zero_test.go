package grpcclient

import (
	"context"
	"testing"

	"google.golang.org/grpc"
)

func TestZeroClient(t *testing.T) {
	conn, _ := connect(t, Options{}, ok)
	called := 0
	invoke := func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error {
		called++
		return nil
	}
	open := func(context.Context, *grpc.StreamDesc, *grpc.ClientConn, string, ...grpc.CallOption) (grpc.ClientStream, error) {
		called++
		return nil, nil //nolint:nilnil // the result is not used
	}
	if err := (&Client{}).Unary(t.Context(), "/s/m", nil, nil, conn, invoke); err != nil {
		t.Error(err)
	}
	if _, err := (&Client{}).Stream(t.Context(), &grpc.StreamDesc{}, conn, "/s/m", open); err != nil || called != 2 {
		t.Errorf("%v, called %d times", err, called)
	}
}
