package stint_test

import (
	"strings"
	"testing"

	"github.com/stintdev/stint"
)

func TestCorruptStatesAreRefused(t *testing.T) {
	for _, spec := range []stint.Spec{
		stint.PerMinute(10),
		{Algorithm: stint.FixedWindow, Limit: 10, Window: 60e9},
		{Algorithm: stint.SlidingWindowCounter, Limit: 10, Window: 60e9, Buckets: 1},
		{Algorithm: stint.SlidingWindowCounter, Limit: 10, Window: 60e9, Buckets: 4},
		{Algorithm: stint.SlidingWindowLog, Limit: 10, Window: 60e9},
	} {
		l, err := spec.Compile()
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range []string{"x", "corrupted", strings.Repeat("\xff", 21), strings.Repeat("z", 400)} {
			if spec.Algorithm == stint.FixedWindow && len(text) == 11 {
				continue
			}
			if _, err := l.DecodeState([]byte(text)); err == nil {
				t.Errorf("%v reads %q as a state", l, text)
			}
		}
	}
}

func TestSharesDivideLimitAndRate(t *testing.T) {
	limit := func(s stint.Spec) stint.Limit {
		l, err := s.Compile()
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	for _, c := range []struct {
		spec  stint.Spec
		nodes int
		max   int64
		rate  string
	}{
		{stint.PerMinute(100), 0, 100, "5/3"},
		{stint.PerMinute(100), 1, 100, "5/3"},
		{stint.PerMinute(100), 3, 34, "5/9"},
		{stint.PerMinute(2), 5, 1, "1/150"},
		{stint.Spec{Algorithm: stint.LeakyBucket, Limit: 10, Window: 1e9, Queue: 9}, 4, 3, "5/2"},
		{stint.Spec{Algorithm: stint.FixedWindow, Limit: 10, Window: 1e9}, 4, 3, ""},
		{stint.Spec{Algorithm: stint.Quota, Limit: 1, Period: "day"}, 4, 1, ""},
	} {
		share, err := limit(c.spec).Share(c.nodes)
		if err != nil {
			t.Fatal(err)
		}
		rate := ""
		if share.Rate() != nil {
			rate = share.Rate().RatString()
		}
		if share.Max() != c.max || rate != c.rate {
			t.Errorf("%d nodes share %+v: %d at %s, want %d at %s", c.nodes, c.spec, share.Max(), rate, c.max, c.rate)
		}
		if share.Shape() != limit(c.spec).Shape() {
			t.Errorf("a share of %+v is of another shape", c.spec)
		}
	}
	slow := limit(stint.Spec{RefillRate: "0.0000001", Capacity: 1})
	if _, err := slow.Share(1 << 20); err == nil {
		t.Error("a rate of one in 300,000 years was accepted")
	}
}
