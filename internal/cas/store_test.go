package cas_test

import (
	"testing"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/cas"
	"github.com/stintdev/stint/internal/cas/casmem"
	"github.com/stintdev/stint/storetest"
)

// backends are a backend of each kind over a server.
var backends = map[string]func(*casmem.Backend) cas.Backend{
	"plain":   func(b *casmem.Backend) cas.Backend { return b },
	"locking": func(b *casmem.Backend) cas.Backend { return casmem.Locking{Backend: b} },
	"atomic":  func(b *casmem.Backend) cas.Backend { return casmem.Atomic{Backend: b} },
	"full":    func(b *casmem.Backend) cas.Backend { return casmem.Full{Atomic: casmem.Atomic{Backend: b}} },
}

// faults are all that the store has to survive without an error.
var faults = casmem.Faults{Seed: 1, Lose: 0.1, Hide: 0.5, UnknownDone: 0.05, UnknownNever: 0.05, UnknownLate: 0.05, Throttle: 0.002}

func newStore(tb testing.TB, b cas.Backend, o cas.Options) *cas.Store {
	tb.Helper()
	if o.Name == "" {
		o.Name = "casmem"
	}
	if o.Heartbeat == 0 {
		o.Heartbeat = -1
	}
	s := cas.New(b, o)
	tb.Cleanup(func() { _ = s.Close() })
	return s
}

func TestStore(t *testing.T) {
	t.Parallel()
	for name, kind := range backends {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			storetest.Suite{Open: func(t *testing.T, clock func() time.Time) stint.Store {
				return newStore(t, kind(casmem.New(casmem.NewServer(nil))), cas.Options{Clock: clock, KeepFor: time.Hour})
			}}.Run(t)
		})
		t.Run(name+" with faults", func(t *testing.T) {
			t.Parallel()
			storetest.Suite{Runs: 10, Open: func(t *testing.T, clock func() time.Time) stint.Store {
				b := casmem.New(casmem.NewServer(nil))
				b.Befall(faults)
				return newStore(t, kind(b), cas.Options{Clock: clock, KeepFor: time.Hour})
			}}.Run(t)
		})
	}
}

// The time of a server that has a clock decides.
func TestServerClock(t *testing.T) {
	storetest.Suite{Open: func(t *testing.T, clock func() time.Time) stint.Store {
		s := casmem.NewServer(clock)
		return newStore(t, casmem.Full{Atomic: casmem.Atomic{Backend: casmem.New(s)}}, cas.Options{KeepFor: time.Hour})
	}, Runs: 20}.Run(t)
}
