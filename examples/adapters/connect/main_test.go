package main

import (
	"errors"
	"net/http"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/stintdev/stint/examples/internal/program"
)

func TestMain(m *testing.M) { program.Main(m, main) }

func TestCallsAreLimited(t *testing.T) {
	client := connect.NewClient[emptypb.Empty, emptypb.Empty](http.DefaultClient, program.Serve(t)+"/ping.v1.PingService/Ping")
	for range 3 {
		answer, err := client.CallUnary(t.Context(), connect.NewRequest(&emptypb.Empty{}))
		if err != nil {
			t.Fatal(err)
		}
		if answer.Header().Get("X-RateLimit-Limit") != "3" {
			t.Errorf("the answer's header is %v", answer.Header())
		}
	}
	_, err := client.CallUnary(t.Context(), connect.NewRequest(&emptypb.Empty{}))
	if code := connect.CodeOf(err); code != connect.CodeResourceExhausted {
		t.Fatalf("the call beyond the limit got %v", err)
	}
	if denied, ok := errors.AsType[*connect.Error](err); !ok || denied.Meta().Get("Retry-After") == "" {
		t.Errorf("the denial has no Retry-After: %v", err)
	}
}
