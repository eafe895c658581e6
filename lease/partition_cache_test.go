package lease

import (
	"testing"
	"time"

	"github.com/stintdev/stint"
)

// Limits that callers invent do not fill the memory.
func TestPartsAreCachedBounded(t *testing.T) {
	p := newPartitions()
	for range maxPartitions + 100 {
		l, err := stint.PerMinute(600).Compile()
		if err != nil {
			t.Fatal(err)
		}
		if made := p.of(l); made != p.of(l) || made.limit.Max() != 570 {
			t.Fatalf("%+v", made)
		}
	}
	if n := p.rules.Len(); n != maxPartitions {
		t.Errorf("%d parts are cached", n)
	}
}

// The part of a bucket that the store keeps leaves room for the units that refill while a part
// lasts, and is at least three quarters of the burst. A window is longer by at least that time.
func TestAPartLeavesRoom(t *testing.T) {
	sec, log, counter := time.Second, stint.SlidingWindowLog, stint.SlidingWindowCounter
	for _, test := range []struct {
		of   stint.Spec
		max  int64
		wide time.Duration // the window
		life time.Duration
	}{
		{stint.PerMinute(600), 570, time.Minute, 3 * sec},
		{stint.PerMinute(10), 9, time.Minute, 3 * sec},
		{stint.PerSecond(100), 75, sec, sec / 4},
		{stint.PerSecond(5), 4, sec, sec / 5},
		{stint.PerSecond(4), 3, sec, sec / 4},
		{stint.PerSecond(3), 3, sec, 0},
		{stint.Spec{Capacity: 100, RefillRate: "100000000"}, 100, 0, 0},
		{stint.Spec{Algorithm: stint.GCRA, Limit: 100, Window: sec, Capacity: 8}, 6, sec, 20 * time.Millisecond},
		{stint.Spec{Algorithm: log, Limit: 10, Window: sec}, 10, sec * 5 / 4, sec / 4},
		{stint.Spec{Algorithm: log, Limit: 10, Window: 20 * time.Millisecond}, 10, 20 * time.Millisecond, 0},
		{stint.Spec{Algorithm: log, Limit: 10, Window: stint.MaxWindow}, 10, stint.MaxWindow, 0},
		{stint.Spec{Algorithm: counter, Limit: 10, Window: sec}, 10, sec * 5 / 4, sec / 4},
		{stint.Spec{Algorithm: counter, Limit: 10, Window: time.Minute, Buckets: 60}, 10, time.Minute + 60*51*time.Millisecond, 3 * sec},
		{stint.Spec{Algorithm: counter, Limit: 10, Window: sec, Buckets: 2}, 10, sec + 2*251*time.Millisecond, sec / 4},
		{stint.Spec{Algorithm: stint.FixedWindow, Limit: 10, Window: sec}, 10, sec, 3 * sec},
		{stint.Spec{Algorithm: stint.LeakyBucket, Limit: 10, Window: sec, Queue: 5}, 6, sec, 0},
	} {
		l, err := test.of.Compile()
		if err != nil {
			t.Fatal(err)
		}
		p := newPartition(l)
		if life := time.Duration(p.life) * time.Microsecond; p.limit.Max() != test.max || test.wide > 0 && p.limit.Window() != test.wide || life != test.life {
			t.Errorf("%s: %s for %v; want %d in %v for %v", l, p.limit, life, test.max, test.wide, test.life)
		}
	}
}
