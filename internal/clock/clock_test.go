package clock

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"
)

const wallStart = int64(1_700_000_000_000_000)

func firstAnchor() *anchor {
	return &anchor{wall: wallStart, span: uint64(time.Second), rate: perNanosecond, full: perNanosecond}
}

// nanos is a time on the monotonic counter of these tests.
func nanos(d time.Duration) uint64 { return uint64(d) }

func TestAnchorCountsWholeMicroseconds(t *testing.T) {
	a := firstAnchor()
	for _, d := range []time.Duration{0, 1, 999, 1000, 1001, 999_999_999, time.Second, time.Hour, time.Hour - 1} {
		if got, want := a.at(nanos(d)), wallStart+d.Microseconds(); got != want {
			t.Errorf("after %d ns: %d, want %d", d, got-wallStart, want-wallStart)
		}
	}
}

func TestAnchorFollowsTheWallClock(t *testing.T) {
	const sync = time.Second + 300*time.Nanosecond
	for _, step := range []struct {
		name      string
		wall      time.Duration // how far the wall clock is ahead
		later     time.Duration // after the comparison
		wantAhead time.Duration // how far the clock is ahead of one that was not corrected
	}{
		{"agrees at once", 0, 0, 0},
		{"agrees later", 0, time.Minute, 0},
		{"ahead counts at once", time.Hour, 0, time.Hour},
		{"ahead counts later", time.Hour, time.Minute, time.Hour},
		{"ahead by one", time.Microsecond, time.Minute, time.Microsecond},
		{"behind does not count at once", -100 * time.Millisecond, 0, 0},
		{"behind is half made up in half a second", -100 * time.Millisecond, time.Second/2 + time.Second/headStart, -50 * time.Millisecond},
		{"behind is made up in a second", -100 * time.Millisecond, 2 * time.Second, -100 * time.Millisecond},
		{"far behind runs at half the speed", -time.Hour, time.Second/2 + time.Second/headStart, -250 * time.Millisecond},
		{"far behind for a second at most", -time.Hour, time.Minute, -500 * time.Millisecond},
	} {
		a := firstAnchor()
		b := a.next(nanos(sync), wallStart*1000+int64(sync+step.wall), perNanosecond)
		at := nanos(sync + step.later)
		if got := time.Duration(b.at(at)-a.at(at)) * time.Microsecond; got != step.wantAhead {
			t.Errorf("%s: %v ahead, want %v", step.name, got, step.wantAhead)
		}
	}
}

// system simulates the clocks of a system: they drift apart, and the wall clock
// is set.
type system struct {
	steady, wall int64
	clock        *anchor
	lead         lead
}

func newSystem() *system {
	return &system{wall: wallStart * 1000, clock: firstAnchor(), lead: lead{wall: wallStart * 1000, own: wallStart * 1000}}
}

// pass lets time pass, with a drift of the wall clock in parts per million, and
// compares the clocks once a second.
func (s *system) pass(d time.Duration, drift int64) {
	for ; d > 0; d -= time.Second {
		step := int64(min(d, time.Second))
		s.steady += step
		s.wall += step + step*drift/1_000_000
		s.clock = s.clock.next(uint64(s.steady), s.lead.follow(s.steady, s.wall), perNanosecond)
	}
}

func (s *system) now() int64 { return s.clock.at(uint64(s.steady)) }

// gap returns how far the clock is ahead of the wall clock.
func (s *system) gap() time.Duration { return time.Duration(s.now()*1000 - s.wall) }

// However far and however often the wall clock is set back, a minute of the clock is a minute,
// so that a RetryAfter that was returned before stays right.
func TestClockPassesTrulyWhenTheWallClockIsSetBack(t *testing.T) {
	for _, back := range []time.Duration{2 * time.Millisecond, 100 * time.Millisecond, time.Second, time.Hour, 100 * 24 * time.Hour} {
		s := newSystem()
		s.pass(10*time.Second, 0)
		for i := range int64(3) {
			before := s.now()
			s.wall -= int64(back)
			s.pass(time.Minute, 0)
			if passed := s.now() - before; passed != time.Minute.Microseconds() {
				t.Errorf("set back by %v: a minute lasts %v", back, time.Duration(passed)*time.Microsecond)
			}
			if want := time.Duration(i+1) * back; (s.gap() - want).Abs() > time.Microsecond {
				t.Errorf("set back by %v: the clock is %v ahead, want %v", back, s.gap(), want)
			}
		}
	}
}

// When the wall clock is set forward again and passes the clock, the clock
// follows at once.
func TestClockMeetsAWallClockThatCatchesUp(t *testing.T) {
	for _, c := range []struct{ back, ahead, gap time.Duration }{
		{time.Hour, time.Hour, 0}, {time.Hour, time.Minute, 59 * time.Minute}, {time.Minute, time.Hour, 0}, {0, time.Hour, 0},
	} {
		s := newSystem()
		s.wall -= int64(c.back)
		s.pass(time.Minute, 0)
		s.wall += int64(c.ahead)
		s.pass(time.Minute, 0)
		if (s.gap() - c.gap).Abs() > time.Microsecond {
			t.Errorf("back %v, ahead %v: the clock is %v ahead, want %v", c.back, c.ahead, s.gap(), c.gap)
		}
	}
}

// An unadjusted monotonic clock drifts from the wall clock. The clock corrects
// the drift, by at most the greatest drift of system clocks.
func TestClockFollowsAWallClockThatDrifts(t *testing.T) {
	for _, drift := range []int64{-400, -50, -1, 1, 50, 400} {
		for _, lead := range []time.Duration{0, time.Hour} {
			s := newSystem()
			s.pass(time.Second, 0)
			s.wall -= int64(lead)
			s.pass(time.Second, 0)
			before, begun := s.now(), s.steady
			s.pass(24*time.Hour, drift)
			want := lead
			if drift > 0 && lead > 0 { // the wall clock catches up
				want -= 24 * time.Hour * time.Duration(drift) / 1_000_000
			}
			if (s.gap() - max(0, want)).Abs() > 2*time.Second/driftPart {
				t.Errorf("drift %d, set back by %v: the clock is %v ahead, want %v", drift, lead, s.gap(), want)
			}
			passed, truly := s.now()-before, (s.steady-begun)/1000
			if off := passed - truly; off > truly/driftPart || -off > truly/driftPart {
				t.Errorf("drift %d, set back by %v: a day lasts %v longer", drift, lead, time.Duration(off)*time.Microsecond)
			}
		}
	}
}

// Time must never run back between readers that still use the previous anchor
// and readers that use the new one, unless the wall clock was set forward in
// between.
func TestClockNeverRunsBack(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 1))
	runs := 2000
	if testing.Short() {
		runs /= 10
	}
	for range runs {
		a, count, ahead := firstAnchor(), uint64(0), int64(0)
		for range 20 {
			count = max(count, a.start) + uint64(time.Second) + r.Uint64N(uint64(time.Second))
			ahead += r.Int64N(2_000_000_001) - 1_000_000_000
			b := a.next(count, wallStart*1000+int64(count)+ahead, perNanosecond)
			for later := uint64(0); later < 2*uint64(time.Second); later += r.Uint64N(uint64(time.Second) / 50) {
				old, now, next := a.at(count+later), b.at(count+later), b.at(count+later+1)
				if later <= uint64(time.Second)/headStart && now < old || next < now {
					t.Fatalf("seed %d: %v after a comparison %d, then %d, then %d", seed, time.Duration(later), old, now, next)
				}
			}
			a = b
		}
	}
}

func TestClockIsTheWallClock(t *testing.T) {
	for _, processor := range []bool{false, true} {
		var c Clock
		c.Init(Options{Processor: processor})
		showsTheWallClock(t, &c)
	}
}

// showsTheWallClock requires that a clock shows the time to a millisecond.
func showsTheWallClock(t *testing.T, c *Clock) {
	t.Helper()
	before := time.Now().UnixMicro()
	got := c.Now()
	if after := time.Now().UnixMicro(); got < before-1000 || got > after+1000 {
		t.Errorf("the clock says %d, the wall clock %d to %d", got, before, after)
	}
}

func TestClockPassesWithTheWallClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c Clock
		c.Init(Options{})
		for _, d := range []time.Duration{1500, time.Millisecond, 3 * time.Second, time.Hour, time.Second / 3, 200 * 24 * time.Hour} {
			time.Sleep(d)
			if got, want := c.Now(), time.Now().UnixMicro(); got != want {
				t.Errorf("after %v more: %d, want %d", d, got, want)
			}
		}
	})
}

// The time of a synctest bubble stands still while a goroutine in it runs, so the
// processor's counter cannot be measured. The clock then follows the bubble's
// time.
func TestProcessorClockInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c Clock
		c.Init(Options{Processor: true})
		if c.cycles.start() != 0 || c.anchor.Load().cycles {
			t.Error("the counter was measured against time that stands still")
		}
		for i := range 3 {
			time.Sleep(time.Duration(i) * 20 * time.Second)
			if got, want := c.Now(), time.Now().UnixMicro(); got != want {
				t.Errorf("reading %d: the clock says %d, want %d", i, got, want)
			}
		}
	})
}

func TestGivenClockRoundsDownAndStaysInRange(t *testing.T) {
	for _, given := range []struct {
		says time.Time
		want int64
	}{
		{time.Time{}, 0}, {time.UnixMicro(-1), 0}, {time.UnixMicro(0), 0}, {time.UnixMicro(wallStart), wallStart},
		{time.UnixMicro(wallStart).Add(999 * time.Nanosecond), wallStart}, {time.UnixMicro(1 << 60), latest},
	} {
		var c Clock
		c.Init(Options{Given: func() time.Time { return given.says }})
		if got := c.Now(); got != given.want {
			t.Errorf("given %v: %d, want %d", given.says, got, given.want)
		}
	}
}
