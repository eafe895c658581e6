package stint_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stintdev/stint"
)

// A limiter is nil if its constructor failed, and a program may ignore that
// error. Its requests then get an error and do not panic.
func TestLimiterThatWasNotMade(t *testing.T) {
	for name, l := range map[string]*stint.Limiter{"zero": {}, "nil": nil} {
		for method, call := range map[string]func(ctx context.Context) error{
			"Allow":             func(ctx context.Context) error { _, err := l.Allow(ctx, "k"); return err },
			"AllowN":            func(ctx context.Context) error { _, err := l.AllowN(ctx, "k", 2); return err },
			"AllowEach":         func(ctx context.Context) error { _, _, err := l.AllowEach(ctx, "k", 2, 0, nil); return err },
			"AllowEach in time": func(ctx context.Context) error { _, _, err := l.AllowEach(ctx, "k", 2, time.Second, nil); return err },
			"Wait":              func(ctx context.Context) error { return l.Wait(ctx, "k") },
			"WaitWithin":        func(ctx context.Context) error { _, err := l.WaitWithin(ctx, "k", 1, time.Second); return err },
			"not waiting":       func(ctx context.Context) error { _, err := l.WaitWithin(ctx, "k", 1, 0); return err },
			"Peek":              func(ctx context.Context) error { _, err := l.Peek(ctx, "k"); return err },
			"Reset":             func(ctx context.Context) error { return l.Reset(ctx, "k") },
			"Reserve":           func(ctx context.Context) error { _, err := l.Reserve(ctx, "k", 1); return err },
		} {
			if err := call(t.Context()); !errors.As(err, new(*stint.Error)) {
				t.Errorf("%s, %s: %v", name, method, err)
			}
		}
		if l.With(stint.Policy{Replicas: 1}) != l || l.WithClock(nil) != l {
			t.Errorf("%s: a copy differs", name)
		}
		if local, err := l.WithLocal(stint.MustParseLimit("1/s")); local != nil || err == nil {
			t.Errorf("%s: with a local limit: %v, %v", name, local, err)
		}
		if l.Name() != "" || l.Limits() != nil {
			t.Errorf("%s: it has a name or limits", name)
		}
	}
}

func TestMemoryThatWasNotMade(t *testing.T) {
	for name, m := range map[string]*stint.Memory{"zero": {}, "nil": nil} {
		for _, spec := range []stint.Spec{stint.PerSecond(1), {FromCaller: true, Limit: 1, Window: time.Second}, {Algorithm: stint.FixedWindow, Limit: 1, Window: time.Second}} {
			claim := stint.Claim{Key: "k", Limit: mustLimit(t, spec), Cost: 1}
			if _, err := m.Take(t.Context(), claim); !errors.As(err, new(*stint.Error)) {
				t.Errorf("%s: Take: %v", name, err)
			}
			if err := m.TakeGroups(t.Context(), []stint.Group{{Claims: []stint.Claim{claim}}}, make([]stint.Decision, 1)); !errors.As(err, new(*stint.Error)) {
				t.Errorf("%s: TakeGroups: %v", name, err)
			}
		}
		if err := m.Close(); err != nil || m.Stats() != (stint.MemoryStats{}) {
			t.Errorf("%s: %v, %+v", name, err, m.Stats())
		}
	}
}

func TestZeroLimitHasZeroValues(t *testing.T) {
	var l stint.Limit
	if l.Valid() || l.Name() != "" || l.Rule() != "" || l.Namespace() != "" || l.FromCaller() || l.Algorithm() != 0 || l.Max() != 0 ||
		l.Window() != 0 || l.Rate() != nil || l.Rounded() || l.Shape() != "" || l.Spec() != (stint.Spec{}) || l.Numbers() != (stint.Numbers{}) {
		t.Errorf("%v has values", l)
	}
	if _, err := l.Share(1); !errors.Is(err, stint.CodeInvalid) {
		t.Error(err)
	}
	var r *stint.Reservation
	if err := r.Cancel(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestMustParseLimitPanics(t *testing.T) {
	if stint.MustParseLimit("5/s").Max() != 5 {
		t.Error("not the limit")
	}
	defer func() {
		if text, ok := recover().(string); !ok || text != `stint: MustParseLimit("5/x"): limit: "5/x" is not a limit (write it as number/unit with the unit s, m, h or d, such as 100/m)` {
			t.Error(text)
		}
	}()
	stint.MustParseLimit("5/x")
}
