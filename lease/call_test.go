package lease_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stintdev/stint"
)

// atMost is of how many claims a call was since it was asked before.
func (f *far) atMost() int {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	most := f.most
	f.most = 0
	return most
}

// singles are groups of one claim each, by key and cost.
func singles(l stint.Limit, keys, costs []int64) []stint.Group {
	groups := make([]stint.Group, len(keys))
	for i := range groups {
		c := leased(l, costs[i])
		c.Key = fmt.Sprint(keys[i])
		groups[i] = group(c)
	}
	return groups
}

// A batch of few keys asks for each key once, be there leases or not.
func TestABatchAsksForAKeyOnce(t *testing.T) {
	play(t, func(s *scene) {
		l := s.limit(perMinute(100_000))
		keys, costs := make([]int64, 1000), make([]int64, 1000)
		for i := range keys {
			keys[i], costs[i] = int64(i%10), 1
		}
		groups, out := singles(l, keys, costs), make([]stint.Decision, len(keys))
		for turn := range 3 {
			s.far.atMost()
			if err := s.TakeGroups(context.Background(), groups, out); err != nil {
				t.Fatal(err)
			}
			for i, d := range out {
				if want := l.Max() - int64(turn*100+i/10+1); !d.Allowed || d.Remaining != want || d.Granted != 0 {
					t.Fatalf("turn %d, claim %d: %+v; want that %d remain", turn, i, d, want)
				}
			}
			if got, most := s.far.atMost(), []int{20, 10, 10}[turn]; got > most { // the first of a key is no reason to look after it
				t.Errorf("turn %d: the store was asked for %d claims; want at most %d", turn, got, most)
			}
			s.rest(time.Second) // what is held goes back
		}
	})
}

// What a batch is told is what the store would have said to its claims, one
// after the other.
func TestABatchIsDecidedAsByTheStore(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	specs := []stint.Spec{
		perMinute(40),
		{Rule: "r", Algorithm: stint.TokenBucket, Limit: 10, Window: time.Minute, Capacity: 40},
		{Rule: "r", Algorithm: stint.GCRA, Limit: 40, Window: time.Minute},
		{Rule: "r", Algorithm: stint.SlidingWindowLog, Limit: 40, Window: time.Minute},
		{Rule: "r", Algorithm: stint.SlidingWindowCounter, Limit: 40, Window: time.Minute},
	}
	for run := range 100 {
		play(t, func(s *scene) {
			s.far.way = 0 // so that both decide at one time
			s.newMinute()
			l := s.limit(specs[run%len(specs)])
			model := stint.NewMemory(stint.MemoryOptions{Clock: func() int64 { return time.Now().UnixMicro() }})
			keys, costs := make([]int64, 30), make([]int64, 30)
			for i := range keys {
				keys[i], costs[i] = random.Int64N(3), 1+random.Int64N(1+random.Int64N(12))
			}
			groups := singles(l, keys, costs)
			got, want := make([]stint.Decision, 30), make([]stint.Decision, 30)
			if err := errors.Join(s.TakeGroups(context.Background(), groups, got), model.TakeGroups(context.Background(), groups, want)); err != nil {
				t.Fatal(err)
			}
			for i := range want {
				if got[i].Allowed != want[i].Allowed || got[i].Allowed && got[i].Remaining != want[i].Remaining || !got[i].Allowed && got[i].RetryAfter <= 0 {
					t.Fatalf("run %d, %v: claim %d of %v of %v: %+v; want %+v", run, l, i, costs, keys, got[i], want[i])
				}
			}
		})
	}
}

// Those that joined fare as the one that asked for them.
func TestABatchFaresAlike(t *testing.T) {
	play(t, func(s *scene) {
		l := s.limit(perMinute(100_000))
		keys, costs := make([]int64, 20), make([]int64, 20)
		for i := range keys {
			costs[i] = 1
		}
		groups, out := singles(l, keys, costs), make([]stint.Decision, len(keys))
		if err := s.TakeGroups(context.Background(), groups, out); err != nil {
			t.Fatal(err)
		}
		s.rest(time.Second)
		s.far.become(degraded{})
		before := s.far.calls
		if err := s.TakeGroups(context.Background(), groups, out); err != nil {
			t.Fatal(err)
		}
		for i, d := range out {
			if !d.Allowed || !d.Degraded {
				t.Errorf("claim %d: %+v", i, d)
			}
		}
		if calls := s.far.calls - before; calls != 1 {
			t.Errorf("%d calls", calls)
		}
		s.far.become(hung{})
		ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
		defer cancel()
		s.far.atMost()
		var some *stint.GroupsError
		if err := s.TakeGroups(ctx, groups, out); !errors.Is(err, context.DeadlineExceeded) || errors.As(err, &some) || s.far.atMost() != 1 {
			t.Errorf("%v", err)
		}
		s.far.become(s.truth)
	})
}

// No claim asks for more than a claim may, nor for those that a node would
// decide for itself, one by one, if the store failed.
func TestNotAllClaimsJoin(t *testing.T) {
	play(t, func(s *scene) {
		l := s.limit(perMinute(stint.MaxCost))
		groups, out := singles(l, make([]int64, 4), []int64{1, 1, stint.MaxCost - 9, 10}), make([]stint.Decision, 4)
		if err := s.TakeGroups(context.Background(), groups, out); err != nil || !out[2].Allowed || out[3].Allowed {
			t.Errorf("%+v, %v", out, err)
		}
		s.rest(time.Minute)
		s.far.atMost()
		groups = singles(l, []int64{7, 7, 7, 7}, []int64{1, 1, 1, 1})
		for i := range groups {
			groups[i].Claims[0].Policy.OnFailure = stint.FailLocal
		}
		if err := s.TakeGroups(context.Background(), groups, out); err != nil {
			t.Fatal(err)
		}
		if got := s.far.atMost(); got != len(groups) {
			t.Errorf("%d claims", got)
		}
	})
}

// Claims of unlike policies are asked for one by one.
func TestClaimsOfUnlikePoliciesDoNotJoin(t *testing.T) {
	play(t, func(s *scene) {
		l := s.limit(perMinute(100_000))
		groups := singles(l, make([]int64, 12), []int64{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1})
		for i := range groups {
			groups[i].Claims[0].Policy.OnFailure = []stint.OnFailure{stint.FailOpen, stint.FailClosed, stint.FailLocal}[i%3]
		}
		out := make([]stint.Decision, len(groups))
		if err := s.TakeGroups(context.Background(), groups, out); err != nil {
			t.Fatal(err)
		}
		if got := s.far.atMost(); got != 9 { // the second makes the key hot, and three join it
			t.Errorf("%d claims", got)
		}
	})
}

// What comes when the store is closed already goes back at once.
func TestWhatABatchLeavesGoesBack(t *testing.T) {
	play(t, func(s *scene) {
		s.newMinute()
		l := s.limit(perMinute(10))
		groups, out := singles(l, []int64{0, 0, 0}, []int64{1, 3, 7}), make([]stint.Decision, 3)
		groups[0].Claims[0].Key, groups[1].Claims[0].Key, groups[2].Claims[0].Key = "k", "k", "k"
		s.far.way = 50 * time.Millisecond
		go func() {
			s.rest(75 * time.Millisecond)
			_ = s.Close()
		}()
		if err := s.TakeGroups(context.Background(), groups, out); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if !out[0].Allowed || !out[1].Allowed || out[2].Allowed || s.used(l) != 4 {
			t.Errorf("%+v, %d used; want 4", out, s.used(l))
		}
	})
}

// A store that panics leaves nobody waiting.
func TestAPanicLeavesNobodyWaiting(t *testing.T) {
	play(t, func(s *scene) {
		l := s.limit(perMinute(100_000))
		s.warm(l, 50*time.Millisecond)
		held := s.Stats().Held
		s.far.become(panicking{})
		for range 3 {
			began := time.Now()
			panics(t, func() { _, _ = s.Take(context.Background(), leased(l, held+1)) })
			panics(t, func() {
				_ = s.TakeGroups(context.Background(), []stint.Group{group(leased(l, held+1))}, make([]stint.Decision, 1))
			})
			if took := time.Since(began); took > 4*s.far.way {
				t.Errorf("it took %v", took)
			}
		}
		s.far.become(s.truth)
	})
}

type panicking struct{}

func (panicking) Take(context.Context, stint.Claim) (stint.Decision, error) { panic("a bug") }

func (panicking) TakeGroups(context.Context, []stint.Group, []stint.Decision) error { panic("a bug") }

func panics(t *testing.T, act func()) {
	t.Helper()
	defer func() {
		if recover() == nil {
			t.Error("it does not panic")
		}
	}()
	act()
}
