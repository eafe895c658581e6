package lease_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/lease"
)

func group(claims ...stint.Claim) stint.Group { return stint.Group{Claims: claims} }

// named returns a limit of n a minute with the given name.
func (s *scene) named(name string, n int64) stint.Limit {
	s.t.Helper()
	spec := perMinute(n)
	spec.Name = name
	return s.limit(spec)
}

// newMinute rests until one begins.
func (s *scene) newMinute() { s.rest(time.Until(time.Now().Truncate(time.Minute).Add(time.Minute))) }

// exhaust uses a limit up, so that it is in the node's deny cache.
func (s *scene) exhaust(l stint.Limit) {
	s.t.Helper()
	for s.take(l, 1).Allowed {
		s.rest(time.Millisecond)
	}
	s.take(l, 1)
}

func (s *scene) takeGroup(claims ...stint.Claim) []stint.Decision {
	s.t.Helper()
	out := make([]stint.Decision, len(claims))
	if err := s.TakeGroups(s.t.Context(), []stint.Group{{Claims: claims}}, out); err != nil {
		s.t.Fatal(err)
	}
	return out
}

// A claim that is not charged because another claim denies reports its remaining units
// unchanged, as every store does.
func TestAClaimThatIsNotChargedShowsWhatStands(t *testing.T) {
	play(t, func(s *scene) {
		s.newMinute()
		wide, small := s.limit(perMinute(100_000)), s.named("narrow", 50)
		for range 100 {
			s.takeGroup(leased(wide, 5), leased(small, 1))
			s.rest(time.Millisecond)
		}
		s.makeHot(wide, 50*time.Millisecond)
		s.take(small, 1)
		stands := s.take(wide, 5).Remaining
		before := s.Stats()
		for range 3 {
			out := s.takeGroup(leased(wide, 5), leased(small, 1))
			if !out[0].Allowed || out[0].Remaining != stands || out[1].Allowed {
				t.Errorf("%+v; want that %d remain", out, stands)
			}
		}
		if after := s.Stats(); after.Asked != before.Asked || after.Local != before.Local || after.Denied != before.Denied+3 {
			t.Errorf("%+v after %+v; want three more denied here, and the store not asked", after, before)
		}
	})
}

// A request under two limits counts as one request, so it makes neither limit hot.
func TestOneRequestHeatsNothing(t *testing.T) {
	play(t, func(s *scene) {
		wide, second := s.named("wide", 10_000), s.named("other", 10_000)
		s.takeGroup(leased(wide, 1), leased(second, 1))
		if got := s.Stats(); got.Keys != 0 || got.Granted != 0 {
			t.Errorf("%+v", got)
		}
		s.takeGroup(leased(wide, 1), leased(second, 1))
		if got := s.Stats(); got.Keys != 2 {
			t.Errorf("%+v; want both limits tracked", got)
		}
	})
}

// Of the groups of one call, the node decides some, the store decides some, and some are
// invalid. Each answer and each error is at the index of its group.
func TestAnswersAndErrorsKeepTheirPlaces(t *testing.T) {
	play(t, func(s *scene) {
		hot, cold, none := s.named("hot", 10_000), s.named("cold", 77), leased(stint.Limit{}, 1)
		s.makeHot(hot, 100*time.Millisecond)
		groups := []stint.Group{
			group(leased(hot, 1)), group(leased(cold, 1)), group(none), group(leased(hot, 1)),
			group(leased(hot, 1), leased(hot, 1)), {},
		}
		out := make([]stint.Decision, 6)
		err := s.TakeGroups(context.Background(), groups, out)
		var some *stint.GroupsError
		if !errors.As(err, &some) {
			t.Errorf("%v; want a GroupsError", err)
			return
		}
		if got, want := wrong(some.Errs), []bool{false, false, true, false, true, false}; !slices.Equal(got, want) {
			t.Errorf("wrong: %v; want %v: %v", got, want, some.Errs)
		}
		if out[0].Limit != 10_000 || out[1].Limit != 77 || out[3].Limit != 10_000 || !out[0].Allowed || !out[1].Allowed || !out[3].Allowed {
			t.Errorf("%+v", out)
		}
		if err := s.TakeGroups(context.Background(), groups, out[:5]); err == nil || errors.As(err, &some) {
			t.Errorf("too little room: %v", err)
		}
	})
}

func wrong(errs []error) (is []bool) {
	for _, err := range errs {
		is = append(is, err != nil)
	}
	return is
}

// When the store fails, decisions made without the store stand.
func TestAStoreThatFailsFailsOnlyItsOwn(t *testing.T) {
	play(t, func(s *scene) {
		hot, cold := s.named("hot", 10_000), s.named("cold", 77)
		s.makeHot(hot, 100*time.Millisecond)
		log := s.limit(stint.Spec{Rule: "r", Name: "log", Algorithm: stint.SlidingWindowLog, Limit: 10, Window: time.Second})
		s.take(log, 1)
		s.take(log, 1)
		s.far.become(hung{})
		ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
		defer cancel()
		out := make([]stint.Decision, 3)
		err := s.TakeGroups(ctx, []stint.Group{group(leased(hot, 1)), group(leased(cold, 1)), group(leased(hot, 1))}, out)
		var some *stint.GroupsError
		if !errors.As(err, &some) || !slices.Equal(wrong(some.Errs), []bool{false, true, false}) || !out[0].Allowed || !out[2].Allowed {
			t.Errorf("%v, %+v", err, out)
		}
		if err := s.TakeGroups(ctx, []stint.Group{group(leased(cold, 1))}, out[:1]); !errors.Is(err, context.DeadlineExceeded) || errors.As(err, &some) {
			t.Errorf("the store was asked for all: %v", err)
		}
		_ = s.TakeGroups(ctx, []stint.Group{group(leased(log, 1))}, out[:1])
		s.far.become(s.truth)
		if d := s.takeGroup(leased(log, 1))[0]; !d.Allowed || d.Remaining != 7 {
			t.Errorf("a failure was taken for a denial: %+v", d)
		}
	})
}

// A shadow is charged when it allows and the group that it observes was admitted. It never
// affects that group, whether the node or the store decides it.
func TestAShadowIsChargedWithItsGroup(t *testing.T) {
	play(t, func(s *scene) {
		s.newMinute()
		wide, gone, watched := s.named("wide", 10_000), s.named("gone", 20), s.named("watched", 10_000)
		observed := func(c stint.Claim, shadows ...stint.Claim) (g stint.Group) {
			g.Claims = []stint.Claim{c}
			for _, shadow := range shadows {
				g.Shadows = append(g.Shadows, []stint.Claim{shadow})
			}
			return g
		}
		call := func(groups ...stint.Group) {
			claims, _ := stint.Sizes(groups)
			if err := s.TakeGroups(context.Background(), groups, make([]stint.Decision, claims)); err != nil {
				t.Fatal(err)
			}
		}
		for range 100 {
			call(observed(leased(wide, 1), leased(watched, 1)))
			s.rest(time.Millisecond)
		}
		s.exhaust(gone)
		asked := s.Stats().Asked
		call(observed(leased(wide, 1), leased(gone, 1), leased(watched, 1)))                                          // 101, and 101
		call(observed(leased(gone, 1), leased(watched, 1)))                                                           // charges nothing
		call(observed(leased(gone, 1), leased(gone, 1), leased(watched, 1)))                                          // also charges nothing
		call(stint.Group{Shadows: [][]stint.Claim{{leased(watched, 1)}}}, observed(leased(wide, 1), leased(gone, 1))) // 102, and 102
		call(stint.Group{Shadows: [][]stint.Claim{{leased(watched, 1), leased(gone, 1)}}})                            // also charges nothing
		if more := s.Stats().Asked - asked; more > 0 {
			t.Fatalf("the store was asked %d times: nothing is tested", more)
		}
		_ = s.Close()
		if s.used(wide) != 102 || s.used(watched) != 102 || s.used(gone) != 20 {
			t.Errorf("used: %d, %d and %d; want 102, 102 and 20", s.used(wide), s.used(watched), s.used(gone))
		}
	})
}

// Claims that no lease can answer go to the store, whether or not their key is hot.
func TestTheStoreDecidesWhatIsNotLeased(t *testing.T) {
	play(t, func(s *scene) {
		hot, gone := s.named("hot", 10_000), s.named("gone", 20)
		s.makeHot(hot, 100*time.Millisecond)
		s.exhaust(gone)
		either, or := leased(gone, 1), leased(hot, 1)
		either.AnyOf, or.AnyOf = 1, 1
		calls := s.far.calls
		if out := s.takeGroup(either, or); out[0].Allowed || !out[1].Allowed || s.far.calls == calls {
			t.Errorf("any of two: %+v", out)
		}
		strict := leased(hot, 1)
		strict.Policy.Consistency = stint.Strict
		more := leased(hot, 1)
		more.Extra = 5
		queue := s.limit(stint.Spec{Rule: "r", Name: "queue", Algorithm: stint.LeakyBucket, Limit: 1, Window: time.Second, Queue: 5})
		for name, c := range map[string]stint.Claim{"strict": strict, "extra": more, "peek": leased(hot, 0), "give back": leased(hot, -1), "leaky": leased(queue, 1)} {
			for range 3 {
				calls = s.far.calls
				d, err := s.Take(context.Background(), c)
				if err != nil || !d.Allowed || s.far.calls == calls || d.Granted != c.Extra {
					t.Errorf("%s: %+v, %v, %d calls", name, d, err, s.far.calls-calls)
				}
			}
		}
	})
}

func TestOptionsAreChecked(t *testing.T) {
	for _, o := range []lease.Options{{Time: time.Millisecond}, {Time: time.Minute}, {MaxKeys: -1}} {
		if s, err := lease.New(degraded{}, o); err == nil {
			_ = s.Close()
			t.Errorf("%+v: no error", o)
		}
	}
}

// A group of parts reports the limits of its claims, as a single part does.
func TestAGroupOfPartsTellsItsLimits(t *testing.T) {
	play(t, func(s *scene) {
		l := s.limit(stint.PerMinute(600))
		if out := s.takeGroup(partitionedClaim(l, 1), leased(s.named("other", 50), 1)); out[0].Limit != 600 || out[1].Limit != 50 {
			t.Errorf("%+v", out)
		}
	})
}

// A peek in a batch sees the tokens that this node holds, and a reset drops them, as in single
// calls.
func TestABatchPeeksAndResets(t *testing.T) {
	play(t, func(s *scene) {
		s.newMinute()
		hot := s.named("hot", 10_000)
		s.makeHot(hot, 100*time.Millisecond)
		held := s.Stats().Held
		if got := s.takeGroup(leased(hot, 0))[0].Remaining; held == 0 || got != s.take(hot, 0).Remaining || got != 9_900 {
			t.Errorf("%d remain while %d are held", got, held)
		}
		if got := s.takeGroup(leased(hot, stint.Forget))[0]; !got.Allowed || s.Stats().Held != 0 {
			t.Errorf("%+v, and %d are held", got, s.Stats().Held)
		}
	})
}

// Another node does not know what a lease has decided, so a group that may be repeated
// goes to the store although the node holds tokens or remembers a denial.
func TestGroupsThatMayBeRepeatedGoToTheStore(t *testing.T) {
	play(t, func(s *scene) {
		s.newMinute()
		limit := s.limit(perMinute(100_000))
		s.makeHot(limit, 50*time.Millisecond)
		used, calls := s.used(limit), s.far.calls
		g := group(leased(limit, 5))
		g.Once = &stint.Once{ID: "id"}
		for i := range 3 {
			out := make([]stint.Decision, 1)
			if err := s.TakeGroups(s.t.Context(), []stint.Group{g, g}, make([]stint.Decision, 2)); err != nil {
				t.Fatal(err)
			}
			if err := s.TakeGroups(s.t.Context(), []stint.Group{g}, out); err != nil || !out[0].Allowed || !out[0].Repeated {
				t.Errorf("repeat %d: %+v, %v", i, out, err)
			}
		}
		if n := s.far.calls - calls; s.used(limit) != used+5 || n != 6 {
			t.Errorf("%d were used and %d then, by %d calls; want 5 more by 6 calls", used, s.used(limit), n)
		}
	})
}
