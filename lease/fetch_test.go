package lease_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stintdev/stint"
)

// atMost returns the greatest number of claims in a store call since it was last called.
func (f *far) atMost() int {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	most := f.most
	f.most = 0
	return most
}

// singles returns groups of one claim each, by key and cost.
func singles(l stint.Limit, keys, costs []int64) []stint.Group {
	groups := make([]stint.Group, len(keys))
	for i := range groups {
		c := leased(l, costs[i])
		c.Key = fmt.Sprint(keys[i])
		groups[i] = group(c)
	}
	return groups
}

// A batch asks the store once for each key, whether or not the keys have leases.
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
			if got, most := s.far.atMost(), []int{20, 10, 10}[turn]; got > most { // the first check of a key does not make it hot
				t.Errorf("turn %d: the store was asked for %d claims; want at most %d", turn, got, most)
			}
			s.rest(time.Second) // held tokens are refunded
		}
	})
}

// A batch gets the decisions that the store would have made on its claims, one after
// the other.
func TestABatchIsDecidedAsByTheStore(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	const n = 12 * 64 // so that all costs may join
	specs := []stint.Spec{
		perMinute(n),
		{Rule: "r", Algorithm: stint.TokenBucket, Limit: 10, Window: time.Minute, Capacity: n},
		{Rule: "r", Algorithm: stint.GCRA, Limit: n, Window: time.Minute},
		{Rule: "r", Algorithm: stint.SlidingWindowLog, Limit: n, Window: time.Minute},
		{Rule: "r", Algorithm: stint.SlidingWindowCounter, Limit: n, Window: time.Minute},
	}
	for run := range 100 {
		play(t, func(s *scene) {
			s.far.way = 0 // so that both stores decide at one time, the beginning of a minute
			l := s.limit(specs[run%len(specs)])
			keys, costs := make([]int64, 30), make([]int64, 30)
			for i := range keys {
				keys[i], costs[i] = random.Int64N(3), 1+random.Int64N(1+random.Int64N(12))
			}
			used := singles(l, []int64{0, 1, 2}, []int64{n - 40, n - 40, n - 40})
			got, want := s.besideTheStore(used, singles(l, keys, costs))
			for i := range want {
				if got[i].Allowed != want[i].Allowed || got[i].Allowed && got[i].Remaining != want[i].Remaining || !got[i].Allowed && got[i].RetryAfter <= 0 {
					t.Fatalf("run %d, %v: claim %d of %v of %v: %+v; want %+v", run, l, i, costs, keys, got[i], want[i])
				}
			}
		})
	}
}

// When the tokens of an answer are used up, the rest of the batch is denied by the state that
// the answer reported.
func TestABatchOverItsLimitAsksOnce(t *testing.T) {
	play(t, func(s *scene) {
		groups, out := singles(s.limit(perMinute(10)), make([]int64, 50), slices.Repeat([]int64{1}, 50)), make([]stint.Decision, 50)
		if err := s.TakeGroups(context.Background(), groups, out); err != nil {
			t.Fatal(err)
		}
		if !out[9].Allowed || out[10].Allowed || out[49].Allowed || s.far.calls != 1 || s.far.atMost() != 2 {
			t.Errorf("%+v; %d calls", out, s.far.calls)
		}
	})
}

// besideTheStore sends the same groups of one claim each to the scene and to a plain store, in
// which some units are already used.
func (s *scene) besideTheStore(used, groups []stint.Group) (got, want []stint.Decision) {
	s.t.Helper()
	model := stint.NewMemory(stint.MemoryOptions{Clock: time.Now})
	ctx := context.Background()
	for _, store := range []stint.Store{s.truth, model} {
		if err := store.TakeGroups(ctx, used, make([]stint.Decision, len(used))); err != nil {
			s.t.Fatal(err)
		}
	}
	got, want = make([]stint.Decision, claimsOf(groups)), make([]stint.Decision, claimsOf(groups))
	if err := errors.Join(s.TakeGroups(ctx, groups, got), model.TakeGroups(ctx, groups, want)); err != nil {
		s.t.Fatal(err)
	}
	return got, want
}

// A claim does not join an earlier claim of its key if another item of that key stands between
// them, because the store must decide them in order.
func TestABatchKeepsItsOrder(t *testing.T) {
	for _, test := range []struct {
		between string
		costs   []int64
		with    int // index of the claim that has another limit beside it; 0: none
	}{
		{"what gives back", []int64{1, 1, 1, -3, 1, 1, 1, 1}, 0},
		{"a reset", []int64{1, 1, 1, stint.Forget, 1, 1, 1}, 0},
		{"a peek", []int64{1, 1, 1, 0, 1}, 0},
		{"a great cost", []int64{1, 1, 2, 1}, 0},
		{"a group", []int64{1, 1, 1, 1}, 2},
	} {
		play(t, func(s *scene) {
			s.far.way = 0
			s.newMinute()
			groups := singles(s.limit(perMinute(3)), make([]int64, len(test.costs)), test.costs)
			if c := &groups[test.with].Claims; test.with > 0 {
				*c = append(*c, leased(s.named("other", 100), 1))
			}
			got, want := s.besideTheStore(nil, groups)
			for i := range want {
				if got[i].Allowed != want[i].Allowed || got[i].Remaining != want[i].Remaining {
					t.Errorf("%s: %d: %+v; want %+v", test.between, i, got[i], want[i])
				}
			}
		})
	}
}

// A claim that asks for more than remains does not use up the rest for other claims.
func TestADeniedClaimOfABatchTakesNothing(t *testing.T) {
	play(t, func(s *scene) {
		s.newMinute()
		l := s.limit(perMinute(1000))
		groups, out := singles(l, make([]int64, 5), []int64{1, 1, 999, 1, 1}), make([]stint.Decision, 5)
		for i := range groups {
			groups[i].Claims[0].Key = "k"
		}
		calls := s.far.calls
		if err := s.TakeGroups(context.Background(), groups, out); err != nil {
			t.Fatal(err)
		}
		if out[2].Allowed || !out[4].Allowed || s.used(l) != 4 || s.far.calls != calls+1 {
			t.Errorf("%+v; %d used, want 4; %d calls", out, s.used(l), s.far.calls-calls)
		}
	})
}

// Claims that joined get the same error as the claim that asked the store for them.
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
		out[7] = stint.Decision{Allowed: true}
		var some *stint.GroupsError
		if err := s.TakeGroups(ctx, groups, out); !errors.Is(err, context.DeadlineExceeded) || errors.As(err, &some) || s.far.atMost() != 1 {
			t.Errorf("%v", err)
		}
		if out[7] != (stint.Decision{}) {
			t.Errorf("%+v, and no decision was made", out[7])
		}
		s.far.become(s.truth)
	})
}

// An error of one key fails only the claims of that key.
func TestABatchFailsByKey(t *testing.T) {
	play(t, func(s *scene) {
		keys, costs := []int64{0, 1, 0, 1, 2, 0, 1, 1, 2, 0}, []int64{1, 1, 1, 1, 1, 1, 1, 1, 1, 1}
		groups, out := singles(s.limit(perMinute(100_000)), keys, costs), make([]stint.Decision, len(keys))
		if err := s.TakeGroups(context.Background(), groups, out); err != nil {
			t.Fatal(err)
		}
		s.rest(time.Second)
		s.far.atMost()
		s.far.become(corrupt{s.truth})
		calls := s.far.calls
		err := s.TakeGroups(context.Background(), groups, out)
		some, ok := errors.AsType[*stint.GroupsError](err)
		if !ok || s.far.atMost() != 3 || s.far.calls != calls+1 {
			t.Fatal(err)
		}
		for i, key := range keys {
			if failed := some.Errs[i] != nil; failed != (key == 1) || out[i].Allowed == failed {
				t.Errorf("claim %d of key %d: %v, %+v", i, key, some.Errs[i], out[i])
			}
		}
		s.far.become(s.truth)
	})
}

// corrupt is a store that cannot read its state of key 1.
type corrupt struct{ stint.Store }

func (c corrupt) TakeGroups(ctx context.Context, groups []stint.Group, out []stint.Decision) error {
	if err := c.Store.TakeGroups(ctx, groups, out); err != nil {
		return err
	}
	some := &stint.GroupsError{Errs: make([]error, len(groups))}
	for i := range groups {
		if groups[i].Claims[0].Key == "1" {
			some.Errs[i], out[i] = errors.New("a bug"), stint.Decision{}
		}
	}
	return some
}

// While the store fails, the node decides and counts each claim of a batch separately.
func TestABatchIsCountedByTheNode(t *testing.T) {
	play(t, func(s *scene) {
		s.newMinute()
		groups, out := singles(s.limit(perMinute(7)), make([]int64, 20), slices.Repeat([]int64{1}, 20)), make([]stint.Decision, 20)
		for i := range groups {
			groups[i].Claims[0].Policy.OnFailure = stint.FailLocal
		}
		for turn := range 2 { // the node tracks the key from the second turn on
			s.far.become(alone{stint.NewMemory(stint.MemoryOptions{})})
			if err := s.TakeGroups(context.Background(), groups, out); err != nil {
				t.Fatal(err)
			}
			for i, d := range out {
				if !d.Degraded || d.Allowed != (i < 7) {
					t.Errorf("claim %d: %+v", i, d)
				}
			}
			if s.far.calls != turn+1 {
				t.Errorf("%d calls: it waits for each", s.far.calls)
			}
		}
		s.far.become(s.truth)
	})
}

// alone is the store with which a node decides while the shared store fails.
type alone struct{ stint.Store }

func (a alone) TakeGroups(ctx context.Context, groups []stint.Group, out []stint.Decision) error {
	for i := range groups {
		c := groups[i].Claims[0]
		c.Extra = 0
		out[i], _ = a.Take(ctx, c) // the store of the test never fails
		out[i].Degraded = true
	}
	return nil
}

// No claim to the store exceeds the greatest cost.
func TestNotAllClaimsJoin(t *testing.T) {
	play(t, func(s *scene) {
		l := s.limit(perMinute(stint.MaxCost))
		groups, out := singles(l, make([]int64, 70), slices.Repeat([]int64{stint.MaxCost / 64}, 70)), make([]stint.Decision, 70)
		if err := s.TakeGroups(context.Background(), groups, out); err != nil || !out[63].Allowed || out[64].Allowed {
			t.Errorf("%+v, %v", out, err)
		}
	})
}

// Only claims of one policy join.
func TestClaimsOfUnlikePoliciesDoNotJoin(t *testing.T) {
	play(t, func(s *scene) {
		l := s.limit(perMinute(100_000))
		groups := singles(l, make([]int64, 16), slices.Repeat([]int64{1}, 16))
		for i := range groups {
			groups[i].Claims[0].Policy.OnFailure = []stint.OnFailure{stint.FailOpen, stint.FailClosed, stint.FailLocal, stint.FailLastKnown}[i/4]
		}
		out := make([]stint.Decision, len(groups))
		if err := s.TakeGroups(context.Background(), groups, out); err != nil {
			t.Fatal(err)
		}
		if got := s.far.atMost(); got != 11 { // the second check makes the key hot, and two join its call; three join the next
			t.Errorf("%d claims", got)
		}
	})
}

// Tokens that arrive after the store has closed are refunded at once.
func TestUnspentTokensOfABatchAreRefunded(t *testing.T) {
	play(t, func(s *scene) {
		s.newMinute()
		l := s.limit(perMinute(1000))
		groups, out := singles(l, []int64{0, 0, 0}, []int64{1, 3, 7}), make([]stint.Decision, 3)
		groups[0].Claims[0].Key, groups[1].Claims[0].Key, groups[2].Claims[0].Key = "k", "k", "k"
		if _, err := s.truth.Take(context.Background(), leased(l, 990)); err != nil {
			t.Fatal(err)
		}
		s.far.way = 50 * time.Millisecond
		go func() {
			s.rest(75 * time.Millisecond)
			_ = s.Close()
		}()
		if err := s.TakeGroups(context.Background(), groups, out); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if !out[0].Allowed || !out[1].Allowed || out[2].Allowed || s.used(l) != 994 {
			t.Errorf("%+v, %d used; want 994", out, s.used(l))
		}
	})
}

// When the store panics, no waiting caller is left behind.
func TestAPanicEndsAllWaits(t *testing.T) {
	play(t, func(s *scene) {
		l := s.limit(perMinute(100_000))
		s.makeHot(l, 50*time.Millisecond)
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
