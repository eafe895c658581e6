package adaptive

import (
	"context"
	"errors"
	"testing"
)

// Do tells the gate what the end of a call says about the load, and refuses what the gate
// sheds.
func TestDo(t *testing.T) {
	failed := errors.New("overloaded")
	for name, c := range map[string]struct {
		f    func(cancel func()) error
		want Outcome
	}{
		"success":      {func(func()) error { return nil }, Success},
		"failure":      {func(func()) error { return failed }, Failure},
		"tooLate":      {func(func()) error { return context.DeadlineExceeded }, Failure},
		"canceled":     {func(func()) error { return context.Canceled }, Ignored},
		"callerGaveUp": {func(cancel func()) error { cancel(); return failed }, Ignored},
		"panic":        {func(func()) error { panic("a panic") }, Ignored},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			g := newTally()
			func() {
				defer func() { _ = recover() }()
				_, err := Do(ctx, g, func(context.Context) (int, error) { return 0, c.f(cancel) })
				if (err == nil) != (c.want == Success) {
					t.Error(err)
				}
			}()
			if u := g.Usage(); u.Admitted != 1 || u.InFlight != 0 || len(g.outcomes) != 1 || g.outcomes[0] != c.want {
				t.Errorf("%+v, %v; want one %v", u, g.outcomes, c.want)
			}
		})
	}
	full := must(New(Options{Max: 1}))
	_, _ = full.Begin()
	_, err := Do(t.Context(), full, func(context.Context) (int, error) { t.Error("called"); return 0, nil })
	if refused := (*RefusedError)(nil); !errors.As(err, &refused) {
		t.Error(err)
	}
}
