package lease

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stintdev/stint"
)

const hour = int64(time.Hour / time.Microsecond)

func TestTheClockTellsASuspension(t *testing.T) {
	for _, step := range []struct {
		name   string
		read   []reading
		gained int64
	}{
		{"they go together", []reading{{1000, 1000}, {hour, hour + maxDivergence}, {2 * hour, 2*hour - maxDivergence}}, 0},
		{"suspended for an hour", []reading{{1000, 1000}, {2000, hour + 2000}, {3000, hour + 3000}}, hour},
		{"and again", []reading{{1000, hour}, {2000, 3 * hour}}, 3*hour - 2000},
		{"set back", []reading{{hour, 0}, {hour + 1000, 1000}}, 0},
		{"set back, then suspended", []reading{{hour, 0}, {hour + 1000, hour + 1000}}, hour},
	} {
		var c clock
		for _, r := range step.read {
			c.adjust(r)
		}
		if got := c.gained.Load(); got != step.gained {
			t.Errorf("%s: gained %d µs; want %d", step.name, got, step.gained)
		}
	}
}

// A machine that was suspended for an hour spends no token that it held before.
func TestLeasesOfASuspendedNodeEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := New(stint.NewMemory(stint.MemoryOptions{Clock: time.Now}), Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		l, err := stint.PerSecond(10_000).Compile()
		if err != nil {
			t.Fatal(err)
		}
		c := stint.Claim{Key: "k", Limit: l, Cost: 1, Policy: stint.Policy{Consistency: stint.Leased}}
		for range 20 {
			if _, err := s.Take(context.Background(), c); err != nil {
				t.Fatal(err)
			}
		}
		if s.Stats().Held == 0 {
			t.Fatal("nothing is held")
		}
		before := s.now()
		now := s.clock.read()
		s.clock.adjust(reading{now.monotonic, now.wall + hour})
		if got := s.Stats(); got.Held != 0 || s.now() < before+hour {
			t.Errorf("%+v", got)
		}
	})
}
