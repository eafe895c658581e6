package stint

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func mustTakeGroups(t testing.TB, s Store, groups ...Group) []Decision {
	t.Helper()
	out := make([]Decision, countClaims(groups))
	if err := s.TakeGroups(context.Background(), groups, out); err != nil {
		t.Fatal(err)
	}
	return out
}

func remaining(out []Decision) (r []int64) {
	for _, d := range out {
		r = append(r, d.Remaining)
	}
	return r
}

func TestGroupChargesAllOrNone(t *testing.T) {
	for _, s := range everyAlgorithm() {
		m, _ := newTestMemory(MemoryOptions{})
		l, tight := mustCompile(t, s), mustCompile(t, Spec{Limit: 2, Window: time.Hour, Name: "tight"})
		g := Group{Claims: []Claim{{Key: "a", Limit: l, Cost: 1}, {Key: "a", Limit: tight, Cost: 1}}}
		for i, want := range [][]int64{{9, 1}, {8, 0}, {8, 0}, {8, 0}} {
			if got := remaining(mustTakeGroups(t, m, g)); !slices.Equal(got, want) {
				t.Errorf("%v: group %d: remaining %v, want %v", l, i, got, want)
			}
		}
	}
}

func TestGroupOfAlternativesChargesThoseThatAllow(t *testing.T) {
	m, _ := newTestMemory(MemoryOptions{})
	a, b, c := mustCompile(t, PerHour(1)), mustCompile(t, PerHour(3)), mustCompile(t, Spec{Limit: 5, Window: time.Hour, Name: "c"})
	g := Group{Claims: []Claim{
		{Key: "a", Limit: a, Cost: 1, Any: 1}, {Key: "b", Limit: b, Cost: 1, Any: 1}, {Key: "c", Limit: c, Cost: 1},
	}}
	for i, want := range [][]int64{{0, 2, 4}, {0, 1, 3}, {0, 0, 2}, {0, 0, 2}} {
		if got := remaining(mustTakeGroups(t, m, g)); !slices.Equal(got, want) {
			t.Errorf("group %d: remaining %v, want %v", i, got, want)
		}
	}
}

func TestShadowGroupIsChargedOnlyWhenTheOneBeforeIsAdmitted(t *testing.T) {
	m, _ := newTestMemory(MemoryOptions{})
	l, seen := mustCompile(t, PerHour(1)), mustCompile(t, PerHour(10))
	enforced := Group{Claims: []Claim{{Key: "a", Limit: l, Cost: 1}}}
	shadow := Group{Claims: []Claim{{Key: "s", Limit: seen, Cost: 1}}, Shadow: true}
	other := Group{Claims: []Claim{{Key: "t", Limit: seen, Cost: 1}}, Shadow: true}
	for i, want := range [][]int64{{0, 9, 9}, {0, 9, 9}} {
		if got := remaining(mustTakeGroups(t, m, enforced, shadow, other)); !slices.Equal(got, want) {
			t.Errorf("call %d: remaining %v, want %v", i, got, want)
		}
	}
	if got := remaining(mustTakeGroups(t, m, shadow)); got[0] != 8 {
		t.Errorf("a shadow group with none before it: remaining %v, want 8", got)
	}
	bad := Group{Claims: []Claim{{Key: "a", Cost: 1}}}
	out := make([]Decision, 2)
	err := m.TakeGroups(context.Background(), []Group{bad, shadow}, out)
	var failed *GroupsError
	if !errors.As(err, &failed) || failed.Errs[0] == nil || failed.Errs[1] != nil || out[1].Remaining != 8 {
		t.Errorf("behind a failed group: %v, %+v", err, out[1])
	}
}

func TestGroupsAreDecidedOneAfterTheOther(t *testing.T) {
	m, _ := newTestMemory(MemoryOptions{})
	l := mustCompile(t, PerHour(100))
	var groups []Group
	for range 70 {
		groups = append(groups, Group{Claims: []Claim{{Key: "a", Limit: l, Cost: 1}}})
	}
	for i, d := range mustTakeGroups(t, m, groups...) {
		if d.Remaining != int64(99-i) {
			t.Fatalf("claim %d: remaining %d, want %d", i, d.Remaining, 99-i)
		}
	}
}

// All groups of a call are decided at one time. The clock of this test advances
// with each reading.
func TestGroupsOfOneCallAreDecidedAtOneTime(t *testing.T) {
	now := int64(1_700_000_000_000_000)
	m := NewMemory(MemoryOptions{Clock: func() int64 { now += 1000; return now }})
	var group Group
	for _, s := range everyAlgorithm() {
		s.Name = fmt.Sprintf("%v.%d", s.Algorithm, s.Buckets)
		group.Claims = append(group.Claims, Claim{Key: "a", Limit: mustCompile(t, s), Cost: 1})
	}
	pair := Group{Claims: group.Claims[:2]}
	for range 12 { // from no state to a denial
		out := mustTakeGroups(t, m, pair, group, pair)
		for i, d := range out {
			if d.At != out[0].At {
				t.Fatalf("claim %d is decided at %d, and the first at %d", i, d.At, out[0].At)
			}
		}
	}
}

// Large groups are checked for duplicates in another way than small ones.
func TestGroupsOfAnySizeAreOfDistinctStates(t *testing.T) {
	l, changed := mustCompile(t, Spec{Limit: 5, Window: time.Hour, Name: "n"}), mustCompile(t, Spec{Limit: 7, Window: time.Hour, Name: "n"})
	named := mustCompile(t, Spec{Limit: 5, Window: time.Hour, Name: "o"})
	for _, n := range []int{2, fewClaims, fewClaims + 1, 10 * fewClaims} {
		g := Group{Claims: []Claim{{Key: "0", Limit: named, Cost: 1}}} // another state under a key that comes again
		for i := 1; i < n; i++ {
			g.Claims = append(g.Claims, Claim{Key: strconv.Itoa(i - 1), Limit: l, Cost: 1})
		}
		if err := g.Validate(); err != nil {
			t.Errorf("%d claims: %v", n, err)
		}
		g.Claims = append(g.Claims, Claim{Key: "0", Limit: changed})
		if err := g.Validate(); err == nil || !strings.HasPrefix(err.Error(), fmt.Sprintf("group: claims 1 and %d are", n)) {
			t.Errorf("%d claims and one of them again: %v", n, err)
		}
	}
}

func TestGroupRefusesTheSameStateTwice(t *testing.T) {
	m, _ := newTestMemory(MemoryOptions{})
	l, changed := mustCompile(t, Spec{Limit: 5, Window: time.Hour, Name: "n"}), mustCompile(t, Spec{Limit: 7, Window: time.Hour, Name: "n"})
	good := Group{Claims: []Claim{{Key: "b", Limit: l, Cost: 1}}}
	for _, second := range []Limit{l, changed} {
		twice := Group{Claims: []Claim{{Key: "a", Limit: l, Cost: 1}, {Key: "a", Limit: second, Cost: 1}}}
		out := []Decision{{}, {Allowed: true}, {Allowed: true}, {}} // the middle ones from another call
		err := m.TakeGroups(context.Background(), []Group{good, twice, good}, out)
		var failed *GroupsError
		var e *Error
		if !errors.As(err, &failed) || failed.Errs[0] != nil || failed.Errs[2] != nil ||
			!errors.As(failed.Errs[1], &e) || e.Code != CodeInvalid || out[1] != (Decision{}) || out[2] != (Decision{}) {
			t.Errorf("%v, %+v", err, out)
		}
	}
	if d := mustTake(t, m, Claim{Key: "a", Limit: l}); d.Remaining != 5 {
		t.Errorf("the refused group charged: remaining %d", d.Remaining)
	}
	if d := mustTake(t, m, Claim{Key: "b", Limit: l}); d.Remaining != 1 {
		t.Errorf("the good groups: remaining %d, want 1", d.Remaining)
	}
}

func TestGroupsNeedRoomForEveryDecision(t *testing.T) {
	m, _ := newTestMemory(MemoryOptions{})
	l := mustCompile(t, PerHour(5))
	g := []Group{{Claims: []Claim{{Key: "a", Limit: l, Cost: 1}}}}
	for _, n := range []int{0, 2} {
		var e *Error
		if err := m.TakeGroups(context.Background(), g, make([]Decision, n)); !errors.As(err, &e) || e.Code != CodeInvalid {
			t.Errorf("out of %d: %v", n, err)
		}
	}
	if err := m.TakeGroups(context.Background(), nil, nil); err != nil {
		t.Errorf("no groups: %v", err)
	}
	if d := mustTake(t, m, Claim{Key: "a", Limit: l}); d.Remaining != 5 {
		t.Errorf("a refused call charged: remaining %d", d.Remaining)
	}
}

// The previous content of out must not appear in the answer.
func TestDecisionsDoNotDependOnWhatOutHeld(t *testing.T) {
	for _, spec := range everyAlgorithm() {
		l, other := mustCompile(t, spec), mustCompile(t, Spec{Limit: 3, Window: time.Hour, Name: "other"})
		one := Group{Claims: []Claim{{Key: "a", Limit: l, Cost: 1}}}
		two := Group{Claims: []Claim{{Key: "a", Limit: l, Cost: 1}, {Key: "a", Limit: other, Cost: 1}}}
		clean, _ := newTestMemory(MemoryOptions{})
		dirty, _ := newTestMemory(MemoryOptions{})
		for range 4 { // from no state to a denial
			want := mustTakeGroups(t, clean, one, two)
			got := make([]Decision, len(want))
			for i := range got {
				got[i] = Decision{Allowed: i == 0, Degraded: true, Limit: -1, Remaining: -1, RetryAfter: -1, ResetAfter: -1, NextAfter: -1, Delay: -1, Granted: -1, At: -1}
			}
			if err := dirty.TakeGroups(context.Background(), []Group{one, two}, got); err != nil || !slices.Equal(got, want) {
				t.Errorf("%v: %+v, %v; want %+v", l, got, err, want)
			}
		}
	}
}

// A group of more claims than a batch holds, between groups that fit.
func TestGroupMayBeLarge(t *testing.T) {
	m, _ := newTestMemory(MemoryOptions{})
	l := mustCompile(t, PerHour(5))
	small := Group{Claims: []Claim{{Key: "small", Limit: l, Cost: 1}}}
	var large Group
	for i := range 3 * batchSize {
		large.Claims = append(large.Claims, Claim{Key: fmt.Sprint(i), Limit: l, Cost: 1})
	}
	out := mustTakeGroups(t, m, small, large, small)
	for i, d := range out[:len(out)-1] {
		if d.Remaining != 4 {
			t.Errorf("claim %d: remaining %d, want 4", i, d.Remaining)
		}
	}
	if last := out[len(out)-1]; last.Remaining != 3 {
		t.Errorf("last: remaining %d, want 3", last.Remaining)
	}
}

// Each group moves a unit from some keys to others. If a group were ever visible
// in part, a total would be wrong.
func TestGroupsAreAtomicForOthers(t *testing.T) {
	m, _ := newTestMemory(MemoryOptions{})
	const keys, limit = 6, 1000
	l := mustCompile(t, Spec{Limit: limit, Window: 400 * 24 * time.Hour})
	var all Group
	for k := range keys {
		all.Claims = append(all.Claims, Claim{Key: fmt.Sprint(k), Limit: l})
	}
	var admitted, denied atomic.Int64
	var wg sync.WaitGroup
	for worker := range 8 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(worker), 1))
			for range 500 {
				p := r.Perm(keys)
				var g Group
				for _, k := range p[:3] {
					g.Claims = append(g.Claims, Claim{Key: fmt.Sprint(k), Limit: l, Cost: 1})
				}
				out := make([]Decision, 3+keys)
				if err := m.TakeGroups(context.Background(), []Group{g, all}, out); err != nil {
					t.Error(err)
					return
				}
				if _, face := Combine(g.Claims, out[:3]); face.Allowed {
					admitted.Add(1)
				} else {
					denied.Add(1)
				}
				used := int64(0)
				for _, d := range out[3:] {
					used += limit - d.Remaining
				}
				if used%3 != 0 {
					t.Errorf("saw a part of a group: %d units used", used)
				}
			}
		})
	}
	wg.Wait()
	used := int64(0)
	for _, d := range mustTakeGroups(t, m, all) {
		used += limit - d.Remaining
	}
	if used != 3*admitted.Load() || denied.Load() == 0 {
		t.Errorf("%d units used by %d groups, %d denied", used, admitted.Load(), denied.Load())
	}
}

func TestCallersLimitsShareNoStateWithOthers(t *testing.T) {
	spec := PerMinute(5)
	spec.Rule = "login"
	own := mustCompile(t, spec)
	spec.FromCaller = true
	brought := mustCompile(t, spec)
	m := NewMemory(MemoryOptions{Clock: func() int64 { return 0 }})
	for _, limit := range []Limit{own, brought} {
		d, err := m.Take(t.Context(), Claim{Key: "ann", Limit: limit, Cost: 5})
		if err != nil || !d.Allowed {
			t.Errorf("%v (from a caller: %v): allowed %v, %v; want allowed", limit, limit.FromCaller(), d.Allowed, err)
		}
	}
	both := []Claim{{Key: "bob", Limit: own, Cost: 1}, {Key: "bob", Limit: brought, Cost: 1}}
	if err := m.TakeGroups(t.Context(), []Group{{Claims: both}}, make([]Decision, 2)); err != nil {
		t.Errorf("a group with both: %v, want both counted", err)
	}
}
