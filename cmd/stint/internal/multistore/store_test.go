package multistore_test

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/cmd/stint/internal/multistore"
	"github.com/stintdev/stint/storekit"
	"github.com/stintdev/stint/storetest"
)

// other is the name of the second store of these tests.
const other = "other"

func open(t *testing.T, first, second stint.Store) *multistore.Store {
	t.Helper()
	s, err := multistore.New(map[string]stint.Store{"": first, other: second})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func memory(clock func() time.Time) *stint.Memory {
	return stint.NewMemory(stint.MemoryOptions{Clock: clock})
}

func limit(t *testing.T, store string, spec stint.Spec) stint.Limit {
	t.Helper()
	if spec.Store = store; spec.Name == "" && store == other {
		spec.Name = "theirs"
	}
	l, err := spec.Compile()
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// scattered is a store that moves the limits of half of all keys to the store named other. So
// groups of several keys, and their shadows, mostly lie in several stores.
type scattered struct {
	stint.Store

	moved sync.Map // stint.Limit → the same limit in the other store
}

func (s *scattered) move(c *stint.Claim) {
	if crc32.ChecksumIEEE([]byte(c.Key))%2 == 0 || !c.Limit.Valid() {
		return
	}
	moved, ok := s.moved.Load(c.Limit)
	if !ok {
		spec := c.Limit.Spec()
		spec.Store = other
		l, err := spec.Compile()
		if err != nil {
			panic(err)
		}
		moved, _ = s.moved.LoadOrStore(c.Limit, l)
	}
	c.Limit, _ = moved.(stint.Limit)
}

func (s *scattered) Take(ctx context.Context, c stint.Claim) (stint.Decision, error) {
	s.move(&c)
	return s.Store.Take(ctx, c)
}

func (s *scattered) TakeGroups(ctx context.Context, groups []stint.Group, out []stint.Decision) error {
	return s.Store.TakeGroups(ctx, storekit.MapClaims(groups, s.move), out)
}

func TestTwoStoresKeepTheContract(t *testing.T) {
	storetest.Run(t, func(t *testing.T, clock func() time.Time) stint.Store {
		return &scattered{Store: open(t, memory(clock), memory(clock))}
	})
}

func TestClaimsGoToTheStoreOfTheirLimit(t *testing.T) {
	first, second := memory(nil), memory(nil)
	s := open(t, first, second)
	here, there := limit(t, "", stint.PerHour(5)), limit(t, other, stint.PerHour(5))
	c := stint.Claim{Key: "k", Cost: 2}
	for _, l := range []stint.Limit{here, there} {
		c.Limit = l
		if d, err := s.Take(t.Context(), c); err != nil || d.Remaining != 3 {
			t.Errorf("store %q: %+v, %v", l.Store(), d, err)
		}
	}
	for i, l := range []stint.Limit{here, there} {
		if d, err := []stint.Store{first, second}[i].Take(t.Context(), stint.Claim{Key: "k", Limit: l}); err != nil || d.Remaining != 3 {
			t.Errorf("store %d was charged %d units, want 2", i, 5-d.Remaining)
		}
	}
	c.Limit = limit(t, "third", stint.PerHour(5))
	if _, err := s.Take(t.Context(), c); !errors.Is(err, stint.CodeInvalid) {
		t.Errorf("an unknown store: %v", err)
	}
	groups := []stint.Group{{Claims: []stint.Claim{c}}, {Claims: []stint.Claim{{Key: "k", Limit: here, Cost: 1}}}}
	out := make([]stint.Decision, 2)
	errs, _ := storekit.PartErrors(s.TakeGroups(t.Context(), groups, out), 2)
	if errs == nil || !errors.Is(errs[0], stint.CodeInvalid) || errs[1] != nil || !out[1].Allowed {
		t.Errorf("a group of an unknown store beside another: %v, %+v", errs, out)
	}
	if _, err := multistore.New(map[string]stint.Store{other: first}); err == nil {
		t.Error("New accepts stores without a default one")
	}
}

// failing is a store that fails some calls.
type failing struct {
	stint.Store

	err  error
	when func(g *stint.Group) bool
	seen []stint.Group
}

func (f *failing) TakeGroups(ctx context.Context, groups []stint.Group, out []stint.Decision) error {
	f.seen = append(f.seen, groups...)
	if f.when != nil && f.when(&groups[0]) {
		return f.err
	}
	return f.Store.TakeGroups(ctx, groups, out)
}

var errDown = &stint.Error{Code: stint.CodeUnavailable, Problem: "the store is down"}

func remaining(t *testing.T, s stint.Store, key string, l stint.Limit) int64 {
	t.Helper()
	d, err := s.Take(t.Context(), stint.Claim{Key: key, Limit: l})
	if err != nil {
		t.Fatal(err)
	}
	return d.Remaining
}

// The error of a store is that of the group, and what the first store has charged is refunded, also
// when the caller has left.
func TestErrorRefundsTheStoresBefore(t *testing.T) {
	second := &failing{Store: memory(nil), err: errDown, when: func(*stint.Group) bool { return true }}
	s := open(t, memory(nil), second)
	here, there := limit(t, "", stint.Spec{Limit: 5, Window: time.Hour, Algorithm: stint.FixedWindow}), limit(t, other, stint.PerHour(5))
	ctx, cancel := context.WithCancel(t.Context())
	second.when = func(*stint.Group) bool { cancel(); return true }
	g := stint.Group{Claims: []stint.Claim{{Key: "k", Limit: there, Cost: 1}, {Key: "k", Limit: limit(t, "", stint.Spec{Name: "x", Limit: 7, Window: time.Hour}), Cost: 1}, {Key: "l", Limit: here, Cost: 2}}, Shadows: [][]stint.Claim{{{Key: "s", Limit: here, Cost: 1}}}}
	out := make([]stint.Decision, 4)
	errs, _ := storekit.PartErrors(s.TakeGroups(ctx, []stint.Group{g}, out), 2)
	if errs == nil || !errors.Is(errs[0], stint.CodeUnavailable) || errs[1] != nil || out[0] != (stint.Decision{}) || !out[3].Allowed {
		t.Fatalf("%v, %+v", errs, out)
	}
	if remaining(t, s, "l", here) != 5 || remaining(t, s, "s", here) != 5 || s.KeptCharges() != 0 {
		t.Errorf("the first store kept a charge; kept: %d", s.KeptCharges())
	}
}

// A refund that fails leaves the charge, which is counted.
func TestLostRefundsAreCounted(t *testing.T) {
	first := &failing{Store: memory(nil), err: errDown, when: func(g *stint.Group) bool { return g.Claims[0].Cost < 0 }}
	s := open(t, first, memory(nil))
	here, there := limit(t, "", stint.PerHour(5)), limit(t, other, stint.PerHour(5))
	g := stint.Group{Claims: []stint.Claim{{Key: "k", Limit: there, Cost: 6}, {Key: "k", Limit: limit(t, "", stint.Spec{Name: "x", Limit: 5, Window: time.Hour}), Cost: 1}, {Key: "k", Limit: here, Cost: 1}}}
	out := make([]stint.Decision, 3)
	if err := s.TakeGroups(t.Context(), []stint.Group{g}, out); err != nil || out[0].Allowed || !out[1].Allowed {
		t.Fatalf("%v, %+v", err, out)
	}
	if s.KeptCharges() != 2 || remaining(t, s, "k", here) != 4 {
		t.Errorf("%d kept, %d remain", s.KeptCharges(), remaining(t, s, "k", here))
	}
}

// A decision that was made without the store is not refunded there.
func TestDegradedChargesAreNotRefunded(t *testing.T) {
	first := &degraded{Store: memory(nil)}
	s := open(t, first, memory(nil))
	g := stint.Group{Claims: []stint.Claim{{Key: "k", Limit: limit(t, "", stint.PerHour(5)), Cost: 1}, {Key: "k", Limit: limit(t, other, stint.PerHour(5)), Cost: 6}}}
	out := make([]stint.Decision, 2)
	if err := s.TakeGroups(t.Context(), []stint.Group{g}, out); err != nil || out[1].Allowed || !out[0].Degraded || first.refunds > 0 {
		t.Errorf("%v, %+v, %d refunds", err, out, first.refunds)
	}
}

type degraded struct {
	stint.Store

	refunds int
}

func (d *degraded) TakeGroups(ctx context.Context, groups []stint.Group, out []stint.Decision) error {
	if groups[0].Claims[0].Cost < 0 {
		d.refunds++
	}
	err := d.Store.TakeGroups(ctx, groups, out)
	for i := range out {
		out[i].Degraded = true
	}
	return err
}

// A place in a queue is taken when all other stores have admitted, and asked for before any is
// charged. The order of the stores does not depend on that of the claims.
func TestLeakyBucketsAreAskedFirstAndTakenLast(t *testing.T) {
	first, second := &failing{Store: memory(nil)}, &failing{Store: memory(nil)}
	s := open(t, first, second)
	leaky := stint.Claim{Key: "k", Limit: limit(t, "", stint.Spec{Algorithm: stint.LeakyBucket, Limit: 1, Window: time.Hour}), Cost: 1}
	bucket := stint.Claim{Key: "k", Limit: limit(t, other, stint.PerHour(1)), Cost: 1}
	g := stint.Group{Claims: []stint.Claim{leaky, bucket}}
	out := make([]stint.Decision, 2)
	if err := s.TakeGroups(t.Context(), []stint.Group{g}, out); err != nil || !out[0].Allowed || !out[1].Allowed {
		t.Fatalf("%v, %+v", err, out)
	}
	if len(first.seen) != 2 || !first.seen[0].Dry || first.seen[1].Dry || len(second.seen) != 1 {
		t.Errorf("the leaky bucket's store saw %+v, the other %+v", first.seen, second.seen)
	}
	leaky.Key = "new" // has room, and the bucket has none
	first.seen, second.seen = nil, nil
	if err := s.TakeGroups(t.Context(), []stint.Group{{Claims: []stint.Claim{leaky, bucket}}}, out); err != nil || out[1].Allowed {
		t.Fatalf("%v, %+v", err, out)
	}
	if remaining(t, s, "new", leaky.Limit) != 1 {
		t.Error("a denied group took a place in the queue")
	}
	leaky.Key, bucket.Key = "k", "new"
	second.seen = nil
	if err := s.TakeGroups(t.Context(), []stint.Group{{Claims: []stint.Claim{leaky, bucket}}}, out); err != nil || out[0].Allowed {
		t.Fatalf("%v, %+v", err, out)
	}
	if len(second.seen) != 1 || !second.seen[0].Dry {
		t.Errorf("a full queue, and the other store saw %+v", second.seen)
	}
}

// Two groups that compete for the last units of two stores, in opposite order, never deny
// each other.
func TestCompetingGroupsDoNotDenyEachOther(t *testing.T) {
	s := open(t, memory(nil), memory(nil))
	for i := range 200 {
		key := fmt.Sprint(i)
		a := stint.Claim{Key: key, Limit: limit(t, "", stint.PerDay(1)), Cost: 1}
		b := stint.Claim{Key: key, Limit: limit(t, other, stint.PerDay(1)), Cost: 1}
		var done sync.WaitGroup
		var admitted [2]bool
		for j, claims := range [][]stint.Claim{{a, b}, {b, a}} {
			done.Go(func() {
				out := make([]stint.Decision, 2)
				if err := s.TakeGroups(t.Context(), []stint.Group{{Claims: claims}}, out); err != nil {
					t.Error(err)
				}
				admitted[j] = out[0].Allowed && out[1].Allowed
			})
		}
		if done.Wait(); admitted[0] == admitted[1] {
			t.Fatalf("round %d: admitted %v", i, admitted)
		}
	}
}

// A repeatable group that a store denies after all keeps the charges of the stores before: a
// repeat finds them, and pays once.
func TestRepeatAfterALateDenialPaysOnce(t *testing.T) {
	second := &failing{Store: memory(nil)}
	s := open(t, memory(nil), second)
	here, there := limit(t, "", stint.PerDay(5)), limit(t, other, stint.PerDay(1))
	spoiled := false
	second.when = func(g *stint.Group) bool {
		if g.Once != nil && !spoiled { // another caller takes the last unit
			spoiled = true
			_, _ = second.Take(t.Context(), stint.Claim{Key: "k", Limit: there, Cost: 1})
		}
		return false
	}
	g := stint.Group{Claims: []stint.Claim{{Key: "k", Limit: here, Cost: 1}, {Key: "k", Limit: there, Cost: 1}}, Once: &stint.Once{ID: "id"}}
	out := make([]stint.Decision, 2)
	if err := s.TakeGroups(t.Context(), []stint.Group{g}, out); err != nil || out[1].Allowed || s.KeptCharges() != 1 {
		t.Fatalf("%v, %+v, %d kept", err, out, s.KeptCharges())
	}
	if _, err := second.Take(t.Context(), stint.Claim{Key: "k", Limit: there, Cost: stint.Forget}); err != nil {
		t.Fatal(err)
	}
	for _, again := range []bool{false, true} {
		if err := s.TakeGroups(t.Context(), []stint.Group{g}, out); err != nil || !out[1].Allowed || out[1].Repeated != again {
			t.Fatalf("%v, %+v", err, out)
		}
	}
	if remaining(t, s, "k", here) != 4 || remaining(t, s, "k", there) != 0 {
		t.Errorf("%d and %d remain", remaining(t, s, "k", here), remaining(t, s, "k", there))
	}
}

// slow is a store whose calls take a millisecond.
type slow struct {
	stint.Store

	under, most atomic.Int32 // calls under way
}

func (s *slow) TakeGroups(ctx context.Context, groups []stint.Group, out []stint.Decision) error {
	if n := s.under.Add(1); n > s.most.Load() {
		s.most.Store(n)
	}
	defer s.under.Add(-1)
	time.Sleep(time.Millisecond)
	return s.Store.TakeGroups(ctx, groups, out)
}

// A batch in two stores takes 2 ms for each 128 groups of different callers, and 2 ms for each group
// of one caller, with 1 ms for each refund.
func TestGroupsOfDifferentCallersAreDecidedAtTheSameTime(t *testing.T) {
	for _, c := range []struct {
		callers  int
		takes    time.Duration
		admitted int
	}{{1000, 16 * time.Millisecond, 1000}, {1, 2300 * time.Millisecond, 700}} {
		synctest.Test(t, func(t *testing.T) {
			first, second := &slow{Store: memory(nil)}, &slow{Store: memory(nil)}
			s := open(t, first, second)
			here, there := limit(t, "", stint.PerDay(800)), limit(t, other, stint.PerDay(700))
			groups := make([]stint.Group, 1000)
			for i := range groups {
				key := fmt.Sprint(i % c.callers)
				groups[i].Claims = []stint.Claim{{Key: key, Limit: there, Cost: 1}, {Key: key, Limit: here, Cost: 1}}
			}
			out, begun := make([]stint.Decision, 2*len(groups)), time.Now()
			if err := s.TakeGroups(t.Context(), groups, out); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(begun); took != c.takes {
				t.Errorf("%d callers: %v, want %v", c.callers, took, c.takes)
			}
			for i := range groups {
				if out[2*i].Allowed != (i < c.admitted) || !out[2*i+1].Allowed {
					t.Fatalf("%d callers, group %d: %+v", c.callers, i, out[2*i:2*i+2])
				}
			}
			if n := max(first.most.Load(), second.most.Load()); n > 128 {
				t.Errorf("%d calls of a store at the same time", n)
			}
		})
	}
}
