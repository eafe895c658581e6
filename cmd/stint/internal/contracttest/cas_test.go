package contracttest

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/cas"
	"github.com/stintdev/stint/internal/cas/casmem"
	"github.com/stintdev/stint/storetest"
)

func newCompareAndSwap(t *testing.T, b cas.Backend, clock func() time.Time) *cas.Store {
	t.Helper()
	s := cas.New(b, cas.Options{Name: "casmem", Clock: clock, KeepFor: time.Hour, Heartbeat: -1})
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func TestCompareAndSwap(t *testing.T) {
	t.Parallel()
	for name, kind := range casmem.Kinds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			storetest.Suite{Open: func(t *testing.T, clock func() time.Time) stint.Store {
				return newCompareAndSwap(t, kind(casmem.New(casmem.NewServer(nil))), clock)
			}}.Run(t)
		})
		t.Run(name+" with faults", func(t *testing.T) {
			t.Parallel()
			storetest.Suite{Runs: 10, Open: func(t *testing.T, clock func() time.Time) stint.Store {
				b := casmem.New(casmem.NewServer(nil))
				b.Befall(casmem.Survivable)
				return newCompareAndSwap(t, kind(b), clock)
			}}.Run(t)
		})
	}
}

// told is a store that hears the time of its server before each call. The suite sets that
// clock between calls, and a node does not know that before the next answer.
type told struct {
	*cas.Store

	t *testing.T
}

func (s told) Take(ctx context.Context, c stint.Claim) (stint.Decision, error) {
	s.hear()
	return s.Store.Take(ctx, c)
}

func (s told) TakeGroups(ctx context.Context, groups []stint.Group, out []stint.Decision) error {
	s.hear()
	return s.Store.TakeGroups(ctx, groups, out)
}

func (s told) hear() {
	if _, err := s.Store.Take(context.Background(), stint.Claim{Key: "told", Limit: stint.MustParseLimit("1/s")}); err != nil {
		s.t.Error(err)
	}
}

// The time of a server that has a clock decides. The clock of the suite stands still during a
// call, so the server refuses what the node decides on an item that it remembers, and the
// node reads the item.
func TestCompareAndSwapByServerClock(t *testing.T) {
	t.Parallel()
	var early atomic.Uint64
	storetest.Suite{Open: func(t *testing.T, clock func() time.Time) stint.Store {
		s := casmem.NewServer(clock)
		store := newCompareAndSwap(t, casmem.Full{Atomic: casmem.Atomic{Backend: casmem.New(s)}}, nil)
		t.Cleanup(func() { early.Add(store.Stats().Early) })
		return told{store, t}
	}, Runs: 20}.Run(t)
	if n := early.Load(); n < 100 {
		t.Errorf("the server refused %d swaps", n)
	}
}
