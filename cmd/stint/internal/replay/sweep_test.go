package replay

import (
	"testing"
	"time"

	"github.com/stintdev/stint"
)

// A limit remembers its place in one memory store, so stores that share it are slow.
func TestJudgesOfASweepShareNoLimit(t *testing.T) {
	limit := stint.MustParseLimit("6/m")
	judges := newJudges([]Swept{{6, limit}, {6, limit}}, time.Now)
	if judges[0].Limit == judges[1].Limit || judges[0].Limit == limit {
		t.Error("two stores share a limit")
	}
	if judges[0].Limit.String() != limit.String() {
		t.Errorf("got %v, want %v", judges[0].Limit, limit)
	}
}

// The memory that the command tells beforehand depends on what the algorithm keeps for a key.
func TestStateBytesFollowTheAlgorithm(t *testing.T) {
	for _, c := range []struct {
		spec stint.Spec
		want int
	}{
		{stint.Spec{Limit: 50, Window: time.Minute}, 64},
		{stint.Spec{Algorithm: stint.SlidingWindowCounter, Limit: 50, Window: time.Minute}, 64},
		{stint.Spec{Algorithm: stint.SlidingWindowCounter, Limit: 50, Window: time.Minute, Buckets: 6}, 64 + 32*8},
		{stint.Spec{Algorithm: stint.SlidingWindowLog, Limit: 50, Window: time.Minute}, 64 + 32*2*56},
	} {
		limit, err := c.spec.Compile()
		if err != nil {
			t.Fatal(err)
		}
		if got := StateBytes(limit); got != c.want {
			t.Errorf("%v: %d bytes, want %d", limit, got, c.want)
		}
	}
}
