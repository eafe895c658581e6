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

	"github.com/stintdev/stint/internal/property"
)

func mustTakeGroups(t testing.TB, s Store, groups ...Group) []Decision {
	t.Helper()
	claims, _ := Sizes(groups)
	out := make([]Decision, claims)
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
		{Key: "a", Limit: a, Cost: 1, AnyOf: 1}, {Key: "b", Limit: b, Cost: 1, AnyOf: 1}, {Key: "c", Limit: c, Cost: 1},
	}}
	for i, want := range [][]int64{{0, 2, 4}, {0, 1, 3}, {0, 0, 2}, {0, 0, 2}} {
		if got := remaining(mustTakeGroups(t, m, g)); !slices.Equal(got, want) {
			t.Errorf("group %d: remaining %v, want %v", i, got, want)
		}
	}
}

func TestShadowIsChargedOnlyWhenItsGroupIsAdmitted(t *testing.T) {
	m, _ := newTestMemory(MemoryOptions{})
	l, seen := mustCompile(t, PerHour(1)), mustCompile(t, PerHour(10))
	enforced := Group{Claims: []Claim{{Key: "a", Limit: l, Cost: 1}}}
	shadow, other := []Claim{{Key: "s", Limit: seen, Cost: 1}}, []Claim{{Key: "t", Limit: seen, Cost: 1}}
	enforced.Shadows = [][]Claim{shadow, other}
	for i, want := range [][]int64{{0, 9, 9}, {0, 9, 9}} {
		if got := remaining(mustTakeGroups(t, m, enforced)); !slices.Equal(got, want) {
			t.Errorf("call %d: remaining %v, want %v", i, got, want)
		}
	}
	if got := remaining(mustTakeGroups(t, m, Group{Shadows: [][]Claim{shadow}})); got[0] != 8 {
		t.Errorf("a shadow of a group without claims: remaining %v, want 8", got)
	}
	bad := Group{Claims: []Claim{{Key: "a", Cost: 1}}, Shadows: [][]Claim{shadow}}
	out := make([]Decision, 2)
	err := m.TakeGroups(context.Background(), []Group{bad}, out)
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
	m := NewMemory(MemoryOptions{Clock: func() time.Time { now += 1000; return time.UnixMicro(now) }})
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
		if err := ValidateClaims(g.Claims); err != nil {
			t.Errorf("%d claims: %v", n, err)
		}
		g.Claims = append(g.Claims, Claim{Key: "0", Limit: changed})
		if err := ValidateClaims(g.Claims); err == nil || !strings.HasPrefix(err.Error(), fmt.Sprintf("group: claims 1 and %d are", n)) {
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
				if _, combined := Combine(g.Claims, out[:3]); combined.Allowed {
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
	m := NewMemory(MemoryOptions{Clock: func() time.Time { return time.UnixMicro(0) }})
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

// takeDryFirst is TakeGroups for one group of several claims, always by the
// general path: first without charging, then charging.
func (m *Memory) takeDryFirst(group *Group, out []Decision) {
	g := groupCall{memory: m, now: m.clock.Now(), groups: []Group{*group}}
	b := batch{make([]query, len(out)), make([]error, len(out)), make([]int32, len(out)), out}
	g.lookUp(&b, 0, 1)
	g.lock(b.queries, b.order)
	defer g.unlock(b.queries, b.order)
	_, _ = g.chargeAllowed(b.queries, group.Claims, out, true) // rules are never refused
}

// twins are stores that differ only in how they decide a group of several
// claims.
type twins struct {
	triplets   // for the clock and the claims of triplets
	short, dry *Memory
}

func newTwins(o MemoryOptions) *twins {
	w := &twins{triplets: triplets{clock: &testClock{}}}
	w.clock.us.Store(wallStart)
	o.Clock = w.clock.time
	w.short, w.dry = NewMemory(o), NewMemory(o)
	w.short.secrets, w.dry.secrets = testSecrets, testSecrets
	return w
}

// take sends one group to both stores, and requires equal answers.
func (w *twins) take(t testing.TB, claims []Claim) {
	t.Helper()
	g := Group{Claims: claims}
	got, want := make([]Decision, len(claims)), make([]Decision, len(claims))
	err := w.short.TakeGroups(context.Background(), []Group{g}, got)
	w.dry.takeDryFirst(&g, want)
	if err != nil || !slices.Equal(got, want) {
		t.Fatalf("at %d, %+v:\n%+v, %v; want\n%+v", w.clock.now(), claims, got, err, want)
	}
}

// draw draws claims under these limits for one key, most of them plain.
func (w *twins) draw(t *property.T, key string, limits []Limit) (claims []Claim) {
	for _, l := range limits {
		c := Claim{Key: key, Limit: l, Cost: t.Int64("cost", 0, 5)}
		if t.Int("odd", 0, 19) == 0 {
			c = w.drawClaim(t, key, l)
			c.AnyOf = uint8(t.Int("any", 0, 2))
		}
		if c.Validate() == nil {
			claims = append(claims, c)
		}
	}
	return claims
}

func (w *twins) agree(t testing.TB, keys []string, limits []Limit) {
	t.Helper()
	if got, want := w.short.Stats(), w.dry.Stats(); got != want {
		t.Fatalf("%+v, want %+v", got, want)
	}
	for _, key := range keys {
		for _, l := range limits {
			if got, want := w.short.kept(key, l), w.dry.kept(key, l); got != want {
				t.Fatalf("%v, key %s: keeps %v, want %v", l, key, got, want)
			}
		}
	}
}

// severalLimits returns some of every algorithm, by their scope: each is under
// two numbers, of which now one holds and now the other.
func severalLimits(t *testing.T) (scopes [][]Limit) {
	for _, s := range everyAlgorithm() {
		s.Name, s.Limit, s.Queue = fmt.Sprintf("%v.%d", s.Algorithm, s.Buckets), 10*s.Limit, 10*s.Queue
		scope := []Limit{mustCompile(t, s)}
		s.Limit, s.Queue = 40, min(s.Queue, 39)
		scopes = append(scopes, append(scope, mustCompile(t, s)))
	}
	return scopes
}

// The fast path and the general path of a group give the same answers and leave
// the same states, to the last bit. The limits have every algorithm and change,
// and time passes and runs back.
func TestGroupInOneStepIsTheDryAndTheCharge(t *testing.T) {
	scopes, keys := severalLimits(t), []string{"a", "b"}
	property.Check(t, func(t *property.T) {
		w := newTwins(MemoryOptions{KeepAll: t.Bool("keeps")})
		var chosen [][]Limit
		for several := t.Int("several", 2, 4); len(chosen) < several; {
			if scope := property.Pick(t, "limits", scopes...); !slices.ContainsFunc(chosen, func(s []Limit) bool { return s[0] == scope[0] }) {
				chosen = append(chosen, scope)
			}
		}
		for range t.Int("groups", 20, 60) {
			if t.Bool("later") {
				w.pass(t)
			}
			var limits []Limit
			for _, scope := range chosen {
				limits = append(limits, scope[t.Int("numbers", 0, 6)/6])
			}
			if claims := w.draw(t, property.Pick(t, "key", keys...), limits); len(claims) > 0 {
				w.take(t, claims)
				w.last = mustPeek(t, w.dry, claims[len(claims)-1])
			}
		}
		for _, scope := range chosen {
			w.agree(t, keys, scope)
		}
	})
}

func mustPeek(t testing.TB, m *Memory, c Claim) Decision {
	t.Helper()
	d, err := m.Take(context.Background(), Claim{Key: c.Key, Limit: c.Limit})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// A search for the state of one claim can move the state of another claim of the group, if both
// are in one cache line of a full shard.
func TestGroupChargesStatesThatItsOwnSearchMoves(t *testing.T) {
	l := mustCompile(t, Spec{Limit: 1_000_000, Window: time.Hour})
	w := newTwins(MemoryOptions{MaxKeys: 1000})
	keys := crowd(w.short, l, 600)
	for from := 0; from < len(keys); from += 50 { // each key is new once, and then used by other claims of its part
		w.take(t, plain(keys[from:from+50], l))
	}
	for stride := 1; stride < 60; stride++ {
		w.clock.us.Add(1)
		var some []string
		for i := 0; i < len(keys); i += stride {
			some = append(some, keys[i])
		}
		w.take(t, plain(some, l))
	}
	w.agree(t, keys, []Limit{l})
}

// Groups that wait for a shard during a split, or find it split, charge the
// states at their new places. Groups also split shards themselves.
func TestGroupsAtOnceAreExactWhileShardsAreParted(t *testing.T) {
	m, _ := newTestMemory(MemoryOptions{})
	l := mustCompile(t, Spec{Limit: 1_000_000, Window: time.Hour})
	keys := crowd(m, l, 6000)
	const workers, hot = 4, 4
	var wg sync.WaitGroup
	for worker := range workers {
		fillers := keys[hot+worker : len(keys)-workers]
		wg.Go(func() {
			out := make([]Decision, hot+1)
			for i := 0; i < len(fillers); i += workers {
				g := Group{Claims: plain(append(slices.Clone(keys[:hot]), fillers[i]), l)}
				if err := m.TakeGroups(context.Background(), []Group{g}, out); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	groups := int64(m.Stats().Keys - hot)
	for _, key := range keys[:hot] {
		d := mustTake(t, m, Claim{Key: key, Limit: l})
		if used := d.Limit - d.Remaining; used != groups || groups < 5900 {
			t.Errorf("%d used by %d groups", used, groups)
		}
	}
	shards := map[uint32]bool{}
	for _, key := range keys {
		shards[m.table.Shard(m.secrets.identify(key, &l.n.salt)).Number()] = true
	}
	if len(shards) == 1 {
		t.Errorf("%d states are in one shard yet", len(keys))
	}
}

func plain(keys []string, l Limit) (claims []Claim) {
	for _, key := range keys {
		claims = append(claims, Claim{Key: key, Limit: l, Cost: 1})
	}
	return claims
}

// A caller that sends many invalid groups costs about what it costs with valid ones. Other
// processes only add to a time, so the least of up to 30 counts.
func TestManyFailedGroupsCostLinearTime(t *testing.T) {
	m, limit := NewMemory(MemoryOptions{}), mustCompile(t, PerHour(5))
	groupsOf := func(key string) []Group {
		groups := make([]Group, 40_000)
		for i := range groups {
			groups[i].Claims = []Claim{{Key: key, Limit: limit, Cost: 1}}
		}
		return groups
	}
	valid, invalid := groupsOf("k"), groupsOf("")
	out := make([]Decision, len(valid))
	least := func(before time.Duration, groups []Group) time.Duration {
		began := time.Now()
		_ = m.TakeGroups(t.Context(), groups, out)
		return min(before, time.Since(began))
	}
	passed, failed := time.Hour, time.Hour
	for i := 0; i < 3 || i < 30 && failed > 10*passed; i++ {
		passed, failed = least(passed, valid), least(failed, invalid)
	}
	if failed > 10*passed {
		t.Errorf("%v for failed groups, %v for valid ones", failed, passed)
	}
}
