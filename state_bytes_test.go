package stint_test

import (
	"encoding/hex"
	"testing"
	"time"

	"github.com/stintdev/stint"
)

// Stores keep these bytes, and processes of several versions share them: see "Stored
// state" in docs/compatibility.md. A change of the bytes needs another name for the
// states.
func TestEncodedStatesStayTheSame(t *testing.T) {
	for _, c := range []struct {
		spec      stint.Spec
		bytes     string
		remaining int64
	}{
		{stint.Spec{Limit: 100, Window: time.Minute}, "064bf535afd3cb05ba1d8501", 96},
		{stint.Spec{Algorithm: stint.GCRA, Limit: 10, Window: time.Second, Capacity: 6}, "064bf535afd3cb002625a0", 3},
		{stint.Spec{Algorithm: stint.FixedWindow, Limit: 100, Window: time.Minute}, "064bf535af100000000004", 96},
		{stint.Spec{Algorithm: stint.SlidingWindowCounter, Limit: 100, Window: time.Minute}, "00000001c2bc700000000400000000", 96},
		{stint.Spec{Algorithm: stint.SlidingWindowCounter, Limit: 100, Window: time.Minute, Buckets: 4}, "000000070af1c00000000400000000000000000000000000000000", 96},
		{stint.Spec{Algorithm: stint.SlidingWindowLog, Limit: 100, Window: time.Minute}, "0000064bf535af107b0003064bf535afd3cb0004", 96},
		{stint.Spec{Algorithm: stint.LeakyBucket, Limit: 10, Window: time.Second, Queue: 20}, "064bf535afd3cb003567e0", 18},
		{stint.Spec{Algorithm: stint.Quota, Limit: 1000, Period: "month"}, "064beb26c3600000000004", 996},
	} {
		limit, err := c.spec.Compile()
		if err != nil {
			t.Fatal(err)
		}
		now := time.Date(2026, time.March, 1, 12, 0, 0, 123_000, time.UTC)
		var s stint.State
		for _, cost := range []int64{3, 1} {
			limit.Step(&s, now.UnixMicro(), &stint.Claim{Cost: cost}, false)
			now = now.Add(50 * time.Millisecond)
		}
		if got := hex.EncodeToString(limit.AppendState(nil, &s)); got != c.bytes {
			t.Errorf("%v: the state is %s, not %s", limit, got, c.bytes)
		}
		recorded, err := hex.DecodeString(c.bytes)
		if err != nil {
			t.Fatal(err)
		}
		s, err = limit.DecodeState(recorded)
		if d := limit.Step(&s, now.UnixMicro(), &stint.Claim{}, true); err != nil || d.Remaining != c.remaining {
			t.Errorf("%v: %d remain of the recorded state, not %d, %v", limit, d.Remaining, c.remaining, err)
		}
	}
}
