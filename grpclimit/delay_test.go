package grpclimit

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/stintdev/stint"
)

// A call whose deadline is earlier than the end of its delay is refused at once and
// takes no place in the queue, at a server and at both kinds of client.
func TestDelayEndsBeforeTheDeadline(t *testing.T) {
	tenant := func(*Call) (string, error) { return "tenant", nil }
	for name, c := range map[string]struct {
		unary func(t *testing.T, l *stint.Limiter) func(ctx context.Context) error
		key   string
		code  codes.Code
	}{
		"server": {func(t *testing.T, l *stint.Limiter) func(ctx context.Context) error {
			t.Helper()
			s := mustLimit(t, l, Options{Key: tenant})
			return func(ctx context.Context) error {
				_, err := s.Unary(ctx, nil, &grpc.UnaryServerInfo{FullMethod: unaryMethod}, func(context.Context, any) (any, error) { return struct{}{}, nil })
				return err
			}
		}, "key:tenant", codes.ResourceExhausted},
		"client that refuses": {func(t *testing.T, l *stint.Limiter) func(ctx context.Context) error {
			t.Helper()
			call := caller(t, sending(t, l, ClientOptions{Refuse: true, Key: func(context.Context, string, string) (string, error) { return "tenant", nil }}))
			return func(ctx context.Context) error { _, err := call(ctx); return err }
		}, "tenant", codes.ResourceExhausted},
		"client that waits": {func(t *testing.T, l *stint.Limiter) func(ctx context.Context) error {
			t.Helper()
			call := caller(t, sending(t, l, ClientOptions{Key: func(context.Context, string, string) (string, error) { return "tenant", nil }}))
			return func(ctx context.Context) error { _, err := call(ctx); return err }
		}, "tenant", codes.DeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				limiter, start := limiter(t, nil, stint.Spec{Algorithm: stint.LeakyBucket, Limit: 10, Window: time.Second, Queue: 100}), time.Now()
				call := c.unary(t, limiter)
				if d, err := limiter.AllowN(t.Context(), c.key, 5); err != nil || !d.Allowed {
					t.Fatal(d, err)
				}
				for _, c := range []struct {
					within time.Duration
					want   codes.Code
					after  time.Duration
				}{{499 * time.Millisecond, c.code, 0}, {501 * time.Millisecond, codes.OK, 500 * time.Millisecond}, {time.Hour, codes.OK, 600 * time.Millisecond}} {
					ctx, cancel := context.WithTimeout(t.Context(), c.within)
					err := call(ctx)
					cancel()
					if status.Code(err) != c.want || time.Since(start) != c.after {
						t.Errorf("within %v: %v after %v; want %v after %v", c.within, err, time.Since(start), c.want, c.after)
					}
				}
			})
		})
	}
}
