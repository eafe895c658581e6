package envoyrls

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

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
type slow struct{ stint.Store }

func (slow) TakeGroups(context.Context, []stint.Group, []stint.Decision) error {
	return &stint.Error{Code: stint.CodeTimeout, Problem: "gave up on 10.0.0.1", Err: errors.New("slow")}
}

// until is a context whose own timer has not fired, whatever its deadline is.
type until struct {
	context.Context //nolint:containedctx // it is one

	deadline time.Time
}

func (u until) Deadline() (time.Time, bool) { return u.deadline, true }

// Envoy waits 20 ms unless told otherwise: a store that is slower must not fill
// the log with a line for each request.
func TestTheLogIsForWhatTheCallerWaitedFor(t *testing.T) {
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for name, c := range map[string]struct {
		ctx   context.Context //nolint:containedctx // a row of a table
		lines int
	}{
		"waits":       {until{t.Context(), time.Now().Add(time.Hour)}, 1},
		"waits ever":  {t.Context(), 1},
		"has no time": {until{t.Context(), time.Now().Add(-time.Microsecond)}, 0},
		"is gone":     {gone, 0},
	} {
		var log strings.Builder
		s := serve(t, messaging, func(o *Options) {
			o.Store, o.Logger = slow{}, slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelError}))
		})
		_, err := s.ShouldRateLimit(c.ctx, request("messaging", "to_number=1"))
		if status.Code(err) != codes.DeadlineExceeded || strings.Contains(err.Error(), "10.0.0.1") || strings.Count(log.String(), "no decision") != c.lines {
			t.Errorf("who %s: %v\n%s", name, err, &log)
		}
	}
}
