package grpclimit

import (
	"context"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/stintdev/stint"
)

// stream is a server transport stream that discards all metadata.
type stream struct{}

func (stream) Method() string               { return unaryMethod }
func (stream) SetHeader(metadata.MD) error  { return nil }
func (stream) SendHeader(metadata.MD) error { return nil }
func (stream) SetTrailer(metadata.MD) error { return nil }

// BenchmarkUnary measures what the interceptor adds to a call.
func BenchmarkUnary(b *testing.B) {
	ample := stint.Spec{Limit: 100_000_000, Window: time.Second}
	tenant := func(c *Call) (string, error) { return c.Metadata("x-tenant"), nil }
	for name, c := range map[string]struct {
		spec stint.Spec
		opts Options
	}{
		"by ip":   {ample, Options{}},
		"by key":  {ample, Options{Key: tenant}},
		"API key": {ample, Options{By: []string{"api_key"}}},
		"denied":  {stint.Spec{Limit: 1, Window: time.Hour}, Options{Key: tenant}},
	} {
		b.Run(name, func(b *testing.B) {
			s := mustLimit(b, over(b, stint.NewMemory(stint.MemoryOptions{}), compiled(b, c.spec)), c.opts)
			call := incoming("203.0.113.9:1", "x-tenant", "t", "authorization", "Bearer k", "user-agent", "grpc-go/1")
			ctx := grpc.NewContextWithServerTransportStream(call.ctx, stream{})
			info := &grpc.UnaryServerInfo{FullMethod: unaryMethod}
			handler := func(context.Context, any) (any, error) { return struct{}{}, nil }
			b.ReportAllocs()
			for b.Loop() {
				_, _ = s.Unary(ctx, nil, info, handler)
			}
		})
	}
}

func compiled(t testing.TB, spec stint.Spec) stint.Limit {
	t.Helper()
	l, err := spec.Compile()
	if err != nil {
		t.Fatal(err)
	}
	return l
}
