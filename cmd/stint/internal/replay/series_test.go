package replay

import (
	"testing"

	"pgregory.net/rapid"
)

// Whatever the times and their order, every event is counted in the step of its time.
func TestSeriesCountsEachEventInItsStep(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newSeries(2)
		span := rapid.SampledFrom([]int64{3, 1000, 100_000, maxTime / oneSecond}).Draw(t, "span")
		times := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) int64 {
			return min(maxTime, rapid.Int64Range(0, span).Draw(t, "second")*oneSecond+rapid.Int64Range(0, oneSecond-1).Draw(t, "rest"))
		}), 1, 50).Draw(t, "times")
		for _, at := range times {
			s.at(at)[1]++
		}
		want := make([]int64, len(s.steps))
		for _, at := range times {
			want[(at-s.start)/s.step]++
		}
		for i, n := range s.line(1) {
			if n != want[i] {
				t.Fatalf("step %d has %d events, want %d", i, n, want[i])
			}
		}
		if len(s.steps) > mostSteps || s.start%s.step != 0 || s.steps[0][1] == 0 && s.step == oneSecond {
			t.Errorf("%d steps of %d from %d", len(s.steps), s.step, s.start)
		}
	})
}

func TestStepsAreMultiplesOfEachOther(t *testing.T) {
	for step := int64(oneSecond); step < maxTime; step = nextStep(step) {
		if next := nextStep(step); next%step != 0 || next <= step || next > 6*step {
			t.Errorf("a step of %d is followed by %d", step, next)
		}
	}
}

func TestSparkDrawsShares(t *testing.T) {
	for _, c := range []struct {
		counts []int64
		want   string
	}{{[]int64{0, 1, 2, 4, 8}, "·▁▂▄█"}, {[]int64{0, 0}, "··"}, {[]int64{1, 1000}, "▁█"}, {[]int64{3}, "█"}} {
		if got := spark(c.counts); got != c.want {
			t.Errorf("%v is drawn as %s, want %s", c.counts, got, c.want)
		}
	}
}
