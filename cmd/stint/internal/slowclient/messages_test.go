package slowclient

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// endlessStream has a message for every call of RecvMsg, after asks returns.
type endlessStream struct {
	grpc.ServerStream

	ctx  context.Context //nolint:containedctx // the context of a call, as in grpc-go
	asks func()
}

func (e *endlessStream) Context() context.Context { return e.ctx }
func (e *endlessStream) RecvMsg(any) error        { e.asks(); return nil }

// TestAMessageThatCameTooLateIsNotHandedOver has a message arrive as its call is cut off.
func TestAMessageThatCameTooLateIsNotHandedOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMessages(time.Second, time.Minute)
		ctx, _ := m.Begin(t.Context(), nil) // Begin never fails
		slow := func() { <-ctx.Done() }
		stream := &endlessStream{ctx: ctx, asks: func() {}}
		err := m.Stream(nil, stream, &grpc.StreamServerInfo{IsClientStream: true}, func(_ any, s grpc.ServerStream) error {
			for range 3 {
				if err := s.RecvMsg(nil); err != nil {
					t.Error(err)
				}
				<-time.After(2 * time.Minute) // busy; nothing is awaited
			}
			stream.asks = slow
			return s.RecvMsg(nil)
		})
		if status.Code(err) != codes.DeadlineExceeded || !errors.Is(ctx.Err(), context.DeadlineExceeded) {
			t.Errorf("%v, %v", err, ctx.Err())
		}
	})
}

func TestCallsAreAwaitedForAWhile(t *testing.T) {
	const within = time.Second
	begin := func(m *Messages, ctx context.Context) context.Context {
		ctx, _ = m.Begin(ctx, nil) // Begin never fails
		return ctx
	}
	receive := func(m *Messages, ctx context.Context) error {
		_, err := m.Unary(ctx, "", nil, func(_ context.Context, request any) (any, error) { return request, nil })
		return err
	}
	state := func(m *Messages) (calls int, armed bool) {
		synctest.Wait()
		m.mu.Lock()
		defer m.mu.Unlock()
		return len(m.calls), m.armed
	}
	synctest.Test(t, func(t *testing.T) {
		m := NewMessages(within, time.Minute)
		left, leave := context.WithCancel(t.Context())
		hurried, cancel := context.WithTimeout(t.Context(), within/2)
		defer cancel()
		whole, half, gone := begin(m, t.Context()), begin(m, t.Context()), begin(m, left)
		if got := begin(m, hurried); got != hurried {
			t.Error("a call with a deadline of its own is tracked")
		}
		if err := receive(m, whole); err != nil {
			t.Error(err)
		}
		leave()
		<-time.After(2 * scanEvery)
		if calls, _ := state(m); calls != 1 || !errors.Is(gone.Err(), context.Canceled) {
			t.Errorf("%d calls, %v", calls, gone.Err())
		}
		<-time.After(within - 3*scanEvery)
		if err := half.Err(); err != nil {
			t.Errorf("%v before its time", err)
		}
		<-half.Done()
		if err := half.Err(); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		if err := receive(m, half); err == nil {
			t.Error("received too late")
		}
		if calls, armed := state(m); whole.Err() != nil || calls != 0 || armed {
			t.Errorf("%v, %d calls, armed %v", whole.Err(), calls, armed)
		}
		begin(m, t.Context())
		if calls, armed := state(m); calls != 1 || !armed {
			t.Errorf("%d calls, armed %v", calls, armed)
		}
	})
}
