package lease

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stintdev/stint"
)

func sized(t *testing.T, s stint.Spec) *size {
	t.Helper()
	l, err := s.Compile()
	if err != nil {
		t.Fatal(err)
	}
	const time = 100_000
	return newSize(l, time, time, time/ticks)
}

// A denial is remembered until its retry time, and for L at most. The minimum is a quarter of L
// or of the time to full. If the retry is later than L, the time that is left after L is zero or
// at least the minimum.
func TestADenialIsRememberedFor(t *testing.T) {
	window := stint.Spec{Algorithm: stint.FixedWindow, Limit: 10, Window: time.Second}
	log := stint.Spec{Algorithm: stint.SlidingWindowLog, Limit: 10, Window: time.Second}
	small := stint.Spec{Capacity: 1, RefillRate: "100"} // full in 10 ms
	for _, test := range []struct {
		of         stint.Spec
		wait, want int64
	}{
		{stint.PerSecond(10), 1, 25_000},
		{stint.PerSecond(10), 60_000, 60_000},
		{stint.PerSecond(10), 100_000, 100_000},
		{stint.PerSecond(10), 100_001, 75_001},
		{stint.PerSecond(10), 124_999, 99_999},
		{stint.PerSecond(10), 125_000, 100_000},
		{log, 1, 25_000},
		{log, 1_000_000, 100_000},
		{small, 1, 2_500},
		{window, 1, 1},
		{window, 1_000_000, 100_000},
	} {
		if got := sized(t, test.of).denialLife(test.wait); got != test.want {
			t.Errorf("%+v: %d for a retry in %d; want %d", test.of, got, test.wait, test.want)
		}
	}
}

// A lease is as large as demanded, but at most an eighth of the remaining units. For a bucket
// that is less than half full it is reduced in proportion.
func TestALeaseShrinksWithWhatIsLeft(t *testing.T) {
	window := stint.Spec{Algorithm: stint.FixedWindow, Limit: 1000, Window: time.Second}
	for _, test := range []struct {
		of       stint.Spec
		expected float64
		smoothed float64
		left     int64
		want     int64
	}{
		{window, 9.5, 0, 1000, 10},
		{window, 500, 500, 1000, 125},
		{window, 10, 10, 79, 9},
		{window, 10, 10, 7, 0},
		{stint.PerSecond(1000), 10, 0, 500, 10},
		{stint.PerSecond(1000), 10, 20, 250, 5},
		{stint.PerSecond(1000), 10, 4, 250, 2},
		{stint.PerSecond(1000), 10, 10, 49, 0},
	} {
		if got := sized(t, test.of).affordable(test.expected, test.smoothed, test.left); got != test.want {
			t.Errorf("%+v: %d of %d at a demand of %v; want %d", test.of, got, test.left, test.expected, test.want)
		}
	}
}

// When the store's clock stands still, grants of one time have several ends. A refund is
// returned to the grant with its end.
func TestARefundGoesToItsOwnGrant(t *testing.T) {
	e := entry{grants: []grant{{left: 1, at: 5, until: 10}, {left: 1, at: 5, until: 20}}}
	if !e.refund(3, grant{at: 5, until: 20}) || e.grants[0].left != 1 || e.grants[1].left != 4 {
		t.Errorf("%+v", e.grants)
	}
	if e.refund(3, grant{at: 5, until: 30}) {
		t.Errorf("%+v; want that nothing takes it", e.grants)
	}
}

// A claim that the store decides together with its group is counted once.
func TestAGroupIsCountedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := New(stint.NewMemory(stint.MemoryOptions{}), Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		claim := func(limit int64) stint.Claim {
			l, err := stint.Spec{Name: fmt.Sprint(limit), Limit: limit, Window: time.Minute}.Compile()
			if err != nil {
				t.Fatal(err)
			}
			return stint.Claim{Key: "k", Limit: l, Cost: 5, Policy: stint.Policy{Consistency: stint.Leased}}
		}
		hot, cold := claim(100_000), claim(77)
		for range 10 {
			if _, err := s.Take(t.Context(), hot); err != nil {
				t.Fatal(err)
			}
			time.Sleep(30 * time.Millisecond)
		}
		held := s.Stats().Held
		if err := s.TakeGroups(t.Context(), []stint.Group{{Claims: []stint.Claim{hot, cold}}}, make([]stint.Decision, 2)); err != nil {
			t.Fatal(err)
		}
		sh, _ := s.locate(&hot)
		sh.Lock()
		used := sh.find(&hot).demand.used
		sh.Unlock()
		if used != 5 || held < 5 { // the demand since the last quarter of L began
			t.Errorf("%d are counted; %d were held", used, held)
		}
	})
}
