package lease_test

import (
	"testing"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/lease"
)

func partitionedClaim(l stint.Limit, cost int64) stint.Claim {
	c := leased(l, cost)
	c.Policy.Consistency = stint.Partitioned
	return c
}

func (s *scene) takePart(l stint.Limit, cost int64) stint.Decision {
	s.t.Helper()
	d, err := s.Take(s.t.Context(), partitionedClaim(l, cost))
	if err != nil {
		s.t.Fatal(err)
	}
	return d
}

// A part of a bucket of 600 a minute lasts 3 s, in which 30 units refill. The part holds back 30
// units of its burst.
func TestAPartedBucketKeepsBackWhatItsPartsRefill(t *testing.T) {
	play(t, func(s *scene) {
		l := s.limit(stint.PerMinute(600))
		admitted := 0
		for range 700 {
			if d := s.takePart(l, 1); d.Allowed {
				admitted++
			} else if d.Limit != 600 {
				t.Fatalf("%+v", d)
			}
		}
		if admitted < 570 || admitted > 600 {
			t.Errorf("%d admitted at once; want from 570 to 600", admitted)
		}
		if d := s.takePart(l, 571); d.RetryAfter != stint.Never {
			t.Errorf("a cost that can never be had: %+v", d)
		}
	})
}

// A limit whose quarter is less than a unit is not partitioned, and keeps its whole burst.
func TestASmallLimitIsStrict(t *testing.T) {
	play(t, func(s *scene) {
		for _, n := range []int64{1, 2, 3} {
			l := s.limit(stint.PerSecond(n))
			for range 20 {
				d := s.takePart(l, 1)
				want, err := s.truth.Take(t.Context(), stint.Claim{Key: "k", Limit: l})
				if err != nil || d.Allowed && d.Remaining != want.Remaining || d.Limit != n {
					t.Errorf("%+v; want what the store says, %+v", d, want)
				}
				s.rest(100 * time.Millisecond)
			}
			if got := s.Stats(); got.Granted != 0 || got.Keys != 0 {
				t.Errorf("%+v", got)
			}
		}
	})
}

// A key needs only one store call a second.
func TestAPartIsRenewedOnceASecond(t *testing.T) {
	play(t, func(s *scene) {
		l := s.limit(perMinute(1_000_000))
		for range 2000 {
			s.takePart(l, 1)
			s.rest(time.Millisecond)
		}
		before := s.Stats()
		for range 10_000 {
			s.takePart(l, 1)
			s.rest(time.Millisecond)
		}
		after := s.Stats()
		if after.Asked != before.Asked || after.Renewed-before.Renewed > 12 {
			t.Errorf("in 10 s %d checks asked, and %d calls renewed", after.Asked-before.Asked, after.Renewed-before.Renewed)
		}
	})
}

// One node holds tokens while the bucket fills up again. Other nodes then take the whole bucket,
// and the first node spends its tokens. Together they get no more than a full bucket and the
// units that refilled meanwhile.
func TestPartsAndABurstStayWithinTheLimit(t *testing.T) {
	play(t, func(s *scene) {
		l := s.limit(stint.PerSecond(1000))
		other, err := lease.New(s.far, lease.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer other.Close()
		for range 400 {
			s.takePart(l, 1)
			s.rest(time.Millisecond)
		}
		s.rest(60 * time.Millisecond)
		held := s.Stats().Held
		if held < 10 {
			t.Fatalf("the node holds %d: nothing is tested", held)
		}
		began, admitted := time.Now(), int64(0)
		for denied := 0; denied < 2; {
			d, err := other.Take(t.Context(), partitionedClaim(l, 1))
			if err != nil {
				t.Fatal(err)
			}
			if d.Allowed {
				admitted++
			} else {
				denied++
			}
		}
		for range held {
			if s.takePart(l, 1).Allowed {
				admitted++
			}
		}
		if most := 1000 + time.Since(began).Milliseconds() + 1; admitted > most {
			t.Errorf("%d admitted in %v; want at most %d", admitted, time.Since(began), most)
		}
	})
}

// A limit is used under two modes. Tokens of a part are not spent as those of a lease, and a
// part is not taken from the whole limit.
func TestTheModesShareNothing(t *testing.T) {
	play(t, func(s *scene) {
		l := s.limit(stint.PerMinute(100_000))
		for range 100 {
			s.takePart(l, 1)
			s.rest(time.Millisecond)
		}
		parts := s.Stats().Held
		if parts < 100 {
			t.Fatalf("%d tokens are held: nothing is tested", parts)
		}
		asked := s.Stats().Asked
		s.take(l, 1)
		if got := s.Stats(); got.Asked != asked+1 || got.Held != parts {
			t.Errorf("%+v; want that a part is not spent as a lease", got)
		}
		if d, stands := s.take(l, 0), l.Max()-s.used(l); d.Remaining < stands+parts-5 {
			t.Errorf("%+v; want that a peek counts the %d held beside the store's %d", d, parts, stands)
		}
		if _, err := s.Take(t.Context(), stint.Claim{Key: "k", Limit: l, Cost: stint.Forget}); err != nil {
			t.Fatal(err)
		}
		if got := s.Stats(); got.Held != 0 {
			t.Errorf("%+v; want that a strict reset drops what any mode holds", got)
		}
	})
}
