package metrics

import (
	"testing"
	"time"
)

func TestPenaltiesAreActiveUntilTheyEnd(t *testing.T) {
	p, start, l := newPenalties(), time.Unix(1_700_000_000, 0), penaltyLabels{"api", "ban"}
	for i := range 3500 { // one a second, each for an hour
		p.begin(l, start.Add(time.Duration(i)*time.Second), time.Hour)
	}
	for _, c := range []struct {
		after time.Duration
		want  int
	}{{3500 * time.Second, 3500}, {90 * time.Minute, 1700}, {2 * time.Hour, 0}} {
		if got := p.lasting(start.Add(c.after))[l]; got < c.want-72 || got > c.want+72 { // 2 % of an hour
			t.Errorf("after %v: %v, want %v", c.after, got, c.want)
		}
	}
	p.forget("api")
	if len(p.ends) > 0 {
		t.Error("a rule that is gone keeps its penalties")
	}
}

// A flood of penalties takes as much memory as a few, with scrapes and without.
func TestAMillionPenaltiesShareTheirEnds(t *testing.T) {
	p, now, l := newPenalties(), time.Unix(1_700_000_000, 0), penaltyLabels{"api", "ban"}
	for range 1_000_000 {
		now = now.Add(100 * time.Millisecond)
		p.begin(l, now, 10*time.Hour)
	}
	if n := len(p.ends[l]); n > 130 {
		t.Errorf("%d counts", n)
	}
	if got := p.lasting(now)[l]; got < 350_000 || got > 370_000 {
		t.Errorf("%v are active, want 360,000", got)
	}
}
