package envoyrls

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/stintdev/stint"
)

// guarded is a store that answers for another one that fails, as guard does.
type guarded struct {
	stint.Store

	calls, failing int // the call that has no answer
}

func (g *guarded) TakeGroups(ctx context.Context, groups []stint.Group, out []stint.Decision) error {
	if g.calls++; g.calls != g.failing {
		return g.Store.TakeGroups(ctx, groups, out)
	}
	for i := range out {
		out[i] = stint.Decision{Degraded: true}
	}
	return nil
}

// Of the two calls that stopping takes, the second is not made after the first
// has failed: it would count by what nobody knows.
func TestAStoreThatFailsDuringEitherCallIsToldOf(t *testing.T) {
	for failing := range 3 {
		store := &guarded{failing: failing}
		s := serve(t, messaging, func(o *Options) {
			o.CountAll, o.StopWhenOver = true, true
			store.Store, o.Store = o.Store, store
		})
		_, err := s.ShouldRateLimit(t.Context(), request("messaging", "to_number=1", "message_type=marketing,to_number=1"))
		want, calls := codes.Unavailable, failing
		if failing == 0 {
			want, calls = codes.OK, 2
		}
		if status.Code(err) != want || store.calls != calls {
			t.Errorf("call %d fails: %v after %d calls", failing, err, store.calls)
		}
	}
}

// slow is a store whose answer nobody waits for.
type slow struct {
	stint.Store

	give context.CancelFunc // ends the call
}

func (s slow) TakeGroups(context.Context, []stint.Group, []stint.Decision) error {
	s.give()
	return &stint.Error{Code: stint.CodeTimeout, Problem: "gave up on 10.0.0.1", Err: errors.New("slow")}
}

// Envoy waits 20 ms unless told otherwise: a store that is slower must not fill
// the log with a line for each request.
func TestTheLogIsForWhatTheCallerWaitedFor(t *testing.T) {
	for givesUp, lines := range map[bool]int{true: 0, false: 1} {
		var log strings.Builder
		ctx, cancel := context.WithCancel(t.Context())
		give := cancel
		if !givesUp {
			give = func() {}
		}
		s := serve(t, messaging, func(o *Options) {
			o.Store, o.Logger = slow{give: give}, slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelError}))
		})
		_, err := s.ShouldRateLimit(ctx, request("messaging", "to_number=1"))
		if status.Code(err) != codes.DeadlineExceeded || strings.Contains(err.Error(), "10.0.0.1") || strings.Count(log.String(), "no decision") != lines {
			t.Errorf("gives up %v: %v\n%s", givesUp, err, &log)
		}
		cancel()
	}
}
