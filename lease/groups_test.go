package lease_test

import (
	"testing"
	"time"

	"github.com/stintdev/stint"
)

func (s *scene) takeGroup(claims ...stint.Claim) []stint.Decision {
	s.t.Helper()
	out := make([]stint.Decision, len(claims))
	if err := s.TakeGroups(s.t.Context(), []stint.Group{{Claims: claims}}, out); err != nil {
		s.t.Fatal(err)
	}
	return out
}

// A claim that is not charged because another one denies shows what remains
// as it stands, as from every store.
func TestAClaimThatIsNotChargedShowsWhatStands(t *testing.T) {
	play(t, func(s *scene) {
		s.rest(time.Until(time.Now().Truncate(time.Minute).Add(time.Minute)))
		narrow := perMinute(50)
		narrow.Name = "narrow"
		wide, small := s.limit(perMinute(100_000)), s.limit(narrow)
		for range 100 {
			s.takeGroup(leased(wide, 5), leased(small, 1))
			s.rest(time.Millisecond)
		}
		s.warm(wide, 50*time.Millisecond)
		s.take(small, 1)
		stands := s.take(wide, 5).Remaining
		before := s.Stats()
		for range 3 {
			out := s.takeGroup(leased(wide, 5), leased(small, 1))
			if !out[0].Allowed || out[0].Remaining != stands || out[1].Allowed {
				t.Errorf("%+v; want that %d remain", out, stands)
			}
		}
		if s.Stats().Asked != before.Asked {
			t.Fatal("the store was asked: nothing is tested")
		}
	})
}

// Two limits of one request are not two requests.
func TestOneRequestHeatsNothing(t *testing.T) {
	play(t, func(s *scene) {
		other := perMinute(10_000)
		other.Name = "other"
		wide, second := s.limit(perMinute(10_000)), s.limit(other)
		s.takeGroup(leased(wide, 1), leased(second, 1))
		if got := s.Stats(); got.Keys != 0 || got.Granted != 0 {
			t.Errorf("%+v", got)
		}
		s.takeGroup(leased(wide, 1), leased(second, 1))
		if got := s.Stats(); got.Keys != 2 {
			t.Errorf("%+v; want both limits looked after", got)
		}
	})
}
