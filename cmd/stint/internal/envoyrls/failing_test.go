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
	"github.com/stintdev/stint/storekit"
)

// guarded is a store that makes degraded decisions when the store behind it fails, as
// guard does.
type guarded struct {
	stint.Store

	calls, failing int // failing is the number of the call that fails
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

// StopWhenOver makes two calls. If the first fails, the second is not made: its claims
// would depend on unknown counts.
func TestAStoreFailureDuringEitherCallIsReported(t *testing.T) {
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

// slow is a store that takes longer than its callers wait.
type slow struct{ stint.Store }

func (s slow) Take(ctx context.Context, c stint.Claim) (stint.Decision, error) {
	return storekit.TakeOne(ctx, s, c)
}

func (slow) TakeGroups(context.Context, []stint.Group, []stint.Decision) error {
	return &stint.Error{Code: stint.CodeTimeout, Problem: "gave up on 10.0.0.1", Err: errors.New("slow")}
}

// until is a context whose deadline is set but whose own timer never fires.
type until struct {
	context.Context //nolint:containedctx // lateContext is itself a context

	deadline time.Time
}

func (u until) Deadline() (time.Time, bool) { return u.deadline, true }

// Envoy waits 20 ms by default. A slower store must not log a line for each request.
func TestFailuresAreLoggedForWaitingCallersOnly(t *testing.T) {
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
