package stint

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// takeDryFirst is TakeGroups for one group of several claims, always by the
// general path: first without charging, then charging.
func (m *Memory) takeDryFirst(group *Group, out []Decision) {
	g := groupCall{memory: m, now: m.clock.Now(), groups: []Group{*group}}
	b := batch{make([]query, len(out)), make([]error, len(out)), make([]int32, len(out))}
	g.lookUp(&b, 0, 1)
	g.lock(b.queries, b.order)
	defer g.unlock(b.queries, b.order)
	_, _ = g.chargeAllowed(b.queries, group.Claims, out, true) // rules are never refused
}

// twins are stores that differ only in how they decide a group of several
// claims.
type twins struct {
	triplets   // for its clock and its claims
	short, dry *Memory
}

func newTwins(o MemoryOptions) *twins {
	w := &twins{triplets: triplets{clock: &testClock{}}}
	w.clock.us.Store(wallStart)
	o.Clock = w.clock.now
	w.short, w.dry = NewMemory(o), NewMemory(o)
	w.short.secrets, w.dry.secrets = testSecrets, testSecrets
	return w
}

// take sends one group to both stores, and requires equal answers.
func (w *twins) take(t rapid.TB, claims []Claim) {
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
func (w *twins) draw(t *rapid.T, key string, limits []Limit) (claims []Claim) {
	for _, l := range limits {
		c := Claim{Key: key, Limit: l, Cost: rapid.Int64Range(0, 5).Draw(t, "cost")}
		if rapid.IntRange(0, 19).Draw(t, "odd") == 0 {
			c = w.drawClaim(t, key, l)
			c.Any = rapid.Uint8Range(0, 2).Draw(t, "any")
		}
		if c.Validate() == nil {
			claims = append(claims, c)
		}
	}
	return claims
}

func (w *twins) agree(t rapid.TB, keys []string, limits []Limit) {
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
	rapid.Check(t, func(t *rapid.T) {
		w := newTwins(MemoryOptions{KeepAll: rapid.Bool().Draw(t, "keeps")})
		chosen := rapid.SliceOfNDistinct(rapid.SampledFrom(scopes), 2, 4, func(s []Limit) Limit { return s[0] }).Draw(t, "limits")
		for range rapid.IntRange(20, 60).Draw(t, "groups") {
			if rapid.Bool().Draw(t, "later") {
				w.pass(t)
			}
			var limits []Limit
			for _, scope := range chosen {
				limits = append(limits, scope[rapid.IntRange(0, 6).Draw(t, "numbers")/6])
			}
			if claims := w.draw(t, rapid.SampledFrom(keys).Draw(t, "key"), limits); len(claims) > 0 {
				w.take(t, claims)
				w.last = mustPeek(t, w.dry, claims[len(claims)-1])
			}
		}
		for _, scope := range chosen {
			w.agree(t, keys, scope)
		}
	})
}

func mustPeek(t rapid.TB, m *Memory, c Claim) Decision {
	t.Helper()
	d, err := m.Take(context.Background(), Claim{Key: c.Key, Limit: c.Limit})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// A search for the state of one claim can move the state of another claim of the
// group, if both belong to one cache line of a full shard.
func TestGroupChargesStatesThatItsOwnSearchMoves(t *testing.T) {
	l := mustCompile(t, Spec{Limit: 1_000_000, Window: time.Hour})
	w := newTwins(MemoryOptions{MaxKeys: 1000})
	keys := crowd(w.short, l, 600)
	for from := 0; from < len(keys); from += 50 { // each anew, once; then by others of it
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
