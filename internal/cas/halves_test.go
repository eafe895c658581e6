package cas

import (
	"bytes"
	"math"
	"testing"
	"time"

	"github.com/stintdev/stint"
)

// An item that was split is the same once it is joined.
func TestSplitAndJoin(t *testing.T) {
	t.Parallel()
	it := item{writers: []stamp{{1, 2}, {3, 400}}}
	value := it.encode(stamp{5, 6}, []byte("states"))
	head, states, ok := SplitItem(value)
	if !ok || string(states) != "states" || !bytes.Equal(JoinItem(head, states), value) {
		t.Errorf("%x became %x and %q", value, head, states)
	}
	if _, _, ok := SplitItem([]byte("no item")); ok {
		t.Error("bytes that are no item were split")
	}
}

// If the parts of an item have different stamps of a writer, it is unclear what became of its
// writes. The stamps that are equal still tell.
func TestMergedHeadsLeaveDifferencesOpen(t *testing.T) {
	t.Parallel()
	head := func(stamps ...stamp) []byte {
		it := item{writers: stamps[1:]}
		head, _, _ := SplitItem(it.encode(stamps[0], nil))
		return head
	}
	merged, ok := decodeItem(JoinItem(MergeHeads([][]byte{head(stamp{1, 9}, stamp{2, 5}), head(stamp{2, 5}, stamp{1, 8}, stamp{3, 1})}), nil))
	if !ok {
		t.Fatal("the merged head cannot be read")
	}
	for _, step := range []struct {
		by   stamp
		want fate
	}{{stamp{1, 9}, unclear}, {stamp{1, 8}, unclear}, {stamp{2, 5}, made}, {stamp{3, 1}, unclear}, {stamp{4, 1}, notMade}} {
		if got := merged.fateOf(step.by, 1, 2); got != step.want {
			t.Errorf("the fate of %v is %d, not %d", step.by, got, step.want)
		}
	}
	if n := merged.writers[0].number; n != math.MaxUint64 {
		t.Errorf("the stamp of the first writer is %d", n)
	}
}

// No state of a limit lives for longer than lifeOf says.
func TestLifeOfALimit(t *testing.T) {
	t.Parallel()
	for _, spec := range []stint.Spec{
		{Limit: 10, Window: time.Minute}, {Limit: 10, Window: time.Minute, Capacity: 100},
		{Algorithm: stint.GCRA, Limit: 10, Window: time.Minute},
		{Algorithm: stint.LeakyBucket, Limit: 10, Window: time.Minute, Queue: 30},
		{Algorithm: stint.FixedWindow, Limit: 10, Window: time.Minute},
		{Algorithm: stint.SlidingWindowCounter, Limit: 10, Window: time.Minute, Buckets: 6},
		{Algorithm: stint.SlidingWindowCounter, Limit: 10, Window: time.Minute},
		{Algorithm: stint.SlidingWindowLog, Limit: 10, Window: time.Minute},
		{Algorithm: stint.Quota, Limit: 10, Period: "month"},
	} {
		l, err := spec.Compile()
		if err != nil {
			t.Fatal(err)
		}
		var s stint.State
		longest, now := time.Duration(0), time.Date(2026, 1, 1, 0, 0, 0, 1000, time.UTC).UnixMicro()
		for range 50 {
			longest = max(longest, l.Step(&s, now, &stint.Claim{Key: "k", Limit: l, Cost: 1}, false).ResetAfter)
		}
		if life := lifeOf(l); longest > life || longest < life/3 {
			t.Errorf("%v: a state lives for %v, and lifeOf is %v", l, longest, life)
		}
	}
}
