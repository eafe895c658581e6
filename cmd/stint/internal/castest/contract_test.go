package castest

import (
	"context"
	"testing"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/cas"
	"github.com/stintdev/stint/internal/cas/casmem"
	"github.com/stintdev/stint/storetest"
)

func newStore(t *testing.T, b cas.Backend, clock func() time.Time) *cas.Store {
	t.Helper()
	s := cas.New(b, cas.Options{Name: "casmem", Clock: clock, KeepFor: time.Hour, Heartbeat: -1})
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func TestContract(t *testing.T) {
	t.Parallel()
	for name, kind := range casmem.Kinds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			storetest.Suite{Open: func(t *testing.T, clock func() time.Time) stint.Store {
				return newStore(t, kind(casmem.New(casmem.NewServer(nil))), clock)
			}}.Run(t)
		})
		t.Run(name+" with faults", func(t *testing.T) {
			t.Parallel()
			storetest.Suite{Runs: 10, Open: func(t *testing.T, clock func() time.Time) stint.Store {
				b := casmem.New(casmem.NewServer(nil))
				b.Befall(casmem.Survivable)
				return newStore(t, kind(b), clock)
			}}.Run(t)
		})
	}
}

// untold is a backend that does not tell the versions of what it wrote, so the store reads
// every item.
type untold struct{ casmem.Full }

func (b untold) Swap(ctx context.Context, swaps []cas.Swap) (now time.Time, err error) {
	now, err = b.Full.Swap(ctx, swaps)
	for i := range swaps {
		swaps[i].Written = 0
	}
	return now, err
}

// The time of a server that has a clock decides. The suite moves that clock at will, and a
// store that remembers an item computes the time, so it remembers none here.
func TestContractByServerClock(t *testing.T) {
	storetest.Suite{Open: func(t *testing.T, clock func() time.Time) stint.Store {
		s := casmem.NewServer(clock)
		return newStore(t, untold{casmem.Full{Atomic: casmem.Atomic{Backend: casmem.New(s)}}}, nil)
	}, Runs: 20}.Run(t)
}
