package stint_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/oracle"
)

// TestMemoryEqualsTheModel sends long random traffic over limits of every
// algorithm and size to the memory store and to the exact model, and compares
// every field of every decision. Each run draws a seed of its own.
func TestMemoryEqualsTheModel(t *testing.T) {
	calls := 15_000
	if testing.Short() {
		calls /= 10
	}
	for name, wild := range map[string]bool{"time runs on": false, "time and limits change": true} {
		t.Run(name, func(t *testing.T) {
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			newTraffic(t, seed, wild).run(calls)
		})
	}
}

// FuzzMemoryEqualsTheModel is TestMemoryEqualsTheModel with seeds from fuzzing.
func FuzzMemoryEqualsTheModel(f *testing.F) {
	for seed := range uint64(4) {
		f.Add(seed, seed%2 == 0)
	}
	f.Fuzz(func(t *testing.T, seed uint64, wild bool) { newTraffic(t, seed, wild).run(300) })
}

// lastTime, in the year 2250, is the end of the traffic.
const lastTime = 1<<53 - 1<<47

// traffic makes random calls on a store, and compares the answers with the model.
type traffic struct {
	t           *testing.T
	rng         *rand.Rand
	wild        bool  // the clock may be behind and limits change, on a store that keeps all
	time, now   int64 // time runs on; the store's clock is now
	store       *stint.Memory
	model       *oracle.Model
	limits      []stint.Limit
	focus, left int             // the index of the limit of most claims, and for how many calls more
	last        stint.Decision  // the last decision under that limit
	moments     [6]int64        // times at which something changes under that limit
	taken       [64]stint.Claim // charges that can be refunded
}

func newTraffic(t *testing.T, seed uint64, wild bool) *traffic {
	tr := &traffic{t: t, rng: rand.New(rand.NewPCG(seed, 0)), wild: wild, time: 1_767_225_600_000_000, model: oracle.New()}
	tr.now = tr.time
	tr.store = stint.NewMemory(stint.MemoryOptions{Clock: func() time.Time { return time.UnixMicro(tr.now) }, KeepAll: wild, MaxKeys: 20_000})
	t.Cleanup(func() { _ = tr.store.Close() })
	for i := range 42 {
		tr.limits = append(tr.limits, tr.randomLimit(stint.Algorithm(i%7), stint.Spec{Rule: fmt.Sprint("rule", i)}))
	}
	return tr
}

func (tr *traffic) run(calls int) {
	for call := 0; call < calls && tr.time < lastTime; call++ {
		if tr.left--; tr.left < 0 {
			tr.focus, tr.left = tr.rng.IntN(len(tr.limits)), tr.rng.IntN(60)
		}
		tr.pass()
		if l := &tr.limits[tr.focus]; tr.wild && tr.rng.IntN(25) == 0 {
			*l = tr.randomLimit(l.Algorithm(), l.Spec())
		}
		if !tr.wild {
			tr.crowd(call)
		}
		groups, n := tr.groups()
		got := make([]stint.Decision, n)
		tr.take(groups, got)
		for i, want := range tr.model.TakeGroups(tr.now, groups) {
			if got[i] != want {
				tr.t.Fatalf("call %d at %d, claim %d of %+v:\ngot  %+v\nwant %+v", call, tr.now, i, groups, got[i], want)
			}
		}
		tr.note(got[0]) // most groups are of the focus
	}
}

// crowd adds keys that soon become idle, so that the store often searches for
// states to forget.
func (tr *traffic) crowd(call int) {
	soon, err := stint.Spec{Name: "crowd", Algorithm: stint.FixedWindow, Limit: 1, Window: time.Millisecond}.Compile()
	if err != nil {
		tr.t.Fatal(err)
	}
	for i := range 4 {
		c := stint.Claim{Key: fmt.Sprint("crowd", call, i), Limit: soon, Cost: 1}
		if _, err := tr.store.Take(context.Background(), c); err != nil {
			tr.t.Fatal(err)
		}
	}
}

// take decides by TakeGroups, and by Take for every other call of a single claim.
func (tr *traffic) take(groups []stint.Group, out []stint.Decision) {
	var err error
	if len(out) == 1 && len(groups[0].Claims) == 1 && !groups[0].Dry && tr.rng.IntN(2) == 0 {
		out[0], err = tr.store.Take(context.Background(), groups[0].Claims[0])
	} else {
		err = tr.store.TakeGroups(context.Background(), groups, out)
	}
	if err != nil {
		tr.t.Fatalf("at %d, %+v: %v", tr.now, groups, err)
	}
}

// note records the times at which something changes according to a decision.
func (tr *traffic) note(d stint.Decision) {
	tr.last = d
	for i, wait := range []time.Duration{d.RetryAfter, d.ResetAfter, d.NextAfter} {
		if wait > 0 && wait < 2*stint.MaxWindow {
			tr.moments[2*i+tr.rng.IntN(2)] = tr.now + wait.Microseconds()
		}
	}
}

// pass advances to a recorded time, to a microsecond before or after it, or by a
// little. The store's clock may lag for a while.
func (tr *traffic) pass() {
	switch kind := tr.rng.IntN(10); {
	case kind < 3:
	case kind < 8:
		tr.time = max(tr.time, tr.moments[tr.rng.IntN(len(tr.moments))]+tr.rng.Int64N(3)-1)
	default:
		tr.time += tr.magnitude(1, 4*tr.limits[tr.focus].Window().Microseconds())
	}
	if behind := tr.time - tr.now; behind <= 0 || tr.rng.IntN(3) == 0 {
		tr.now = tr.time
	}
	if tr.wild && tr.rng.IntN(20) == 0 {
		tr.now = max(1, tr.time-tr.magnitude(1, 2*tr.limits[tr.focus].Window().Microseconds()))
	}
}

// magnitude draws a random number from least to most, uniform in its magnitude.
func (tr *traffic) magnitude(least, most int64) int64 {
	low, high := math.Log(float64(least)), math.Log(float64(most))
	return min(max(int64(math.Exp(low+tr.rng.Float64()*(high-low))), least), most)
}

// groups draws the groups of one call and counts their claims.
func (tr *traffic) groups() (groups []stint.Group, claims int) {
	groups = append(groups, stint.Group{})
	for range max(1, tr.rng.IntN(7)-4) {
		var part []stint.Claim
		for range max(1, tr.rng.IntN(8)-4) {
			if c := tr.claim(len(part) == 0); distinct(part, c) {
				part = append(part, c)
			}
		}
		if last := &groups[len(groups)-1]; tr.rng.IntN(8) == 0 {
			last.Shadows = append(last.Shadows, part)
		} else if last.Claims == nil && last.Shadows == nil {
			last.Claims = part
		} else {
			groups = append(groups, stint.Group{Claims: part})
		}
		groups[len(groups)-1].Dry = tr.rng.IntN(20) == 0
	}
	claims, _ = stint.Sizes(groups)
	return groups, claims
}

// distinct reports whether a claim is of a rule and key that no other is of.
func distinct(claims []stint.Claim, c stint.Claim) bool {
	for _, other := range claims {
		if other.Limit.Rule() == c.Limit.Rule() && other.Key == c.Key {
			return false
		}
	}
	return true
}

// claim draws a claim, mostly of the limit in focus.
func (tr *traffic) claim(focused bool) stint.Claim {
	l, key := tr.limits[tr.focus], "key"
	if !focused || tr.rng.IntN(8) == 0 {
		l, key = tr.limits[tr.rng.IntN(len(tr.limits))], fmt.Sprint("key", tr.rng.IntN(4))
	}
	c := stint.Claim{Key: key, Limit: l, Cost: tr.cost(l)}
	if tr.rng.IntN(4) == 0 {
		c.AnyOf = uint8(tr.rng.IntN(3))
	}
	slot := &tr.taken[tr.rng.IntN(len(tr.taken))]
	switch tr.rng.IntN(16) {
	case 0:
		c.Cost = 0
	case 1:
		c.Extra = tr.magnitude(1, stint.MaxCost)
	case 2, 3:
		if slot.Cost > 0 {
			c.Key, c.Limit, c.Cost, c.At = slot.Key, slot.Limit, -slot.Cost, slot.At
		}
	case 4:
		c.Cost, c.At = -c.Cost, max(0, tr.now-tr.magnitude(1, 1<<36))
	case 5:
		if tr.rng.IntN(8) == 0 {
			c.Cost = stint.Forget
		}
	default:
		*slot = c
		slot.At = tr.now // or later, by the newest time in the state
	}
	return c
}

func (tr *traffic) cost(l stint.Limit) int64 {
	switch tr.rng.IntN(12) {
	case 0:
		return tr.magnitude(1, l.Max())
	case 1:
		return l.Max()
	case 2:
		return min(l.Max()+1, stint.MaxCost)
	case 3, 4, 5:
		return max(1, min(tr.last.Remaining, stint.MaxCost))
	case 6, 7, 8:
		return min(tr.last.Remaining+1, stint.MaxCost)
	}
	return min(1+l.Max()/int64(2+tr.rng.IntN(20)), stint.MaxCost)
}

// randomLimit draws a limit of an algorithm over the scope and shape of s; a
// shape that is missing is drawn.
func (tr *traffic) randomLimit(a stint.Algorithm, s stint.Spec) stint.Limit {
	if s.Window == 0 && s.Period == "" {
		tr.shape(a, &s)
	}
	for range 10_000 {
		s.Limit, s.Capacity, s.Queue, s.RefillRate = tr.magnitude(1, stint.MaxLimit), 0, 0, ""
		switch a {
		case stint.TokenBucket:
			s.Limit, s.RefillRate = 0, fmt.Sprintf("%.*f", tr.rng.IntN(7), math.Exp(tr.rng.Float64()*30-12))
			s.Capacity = tr.magnitude(1, stint.MaxLimit)
		case stint.GCRA:
			s.Capacity = tr.magnitude(1, stint.MaxLimit)
		case stint.LeakyBucket:
			s.Queue = tr.magnitude(1, stint.MaxLimit) - 1
		case stint.SlidingWindowLog:
			s.Limit = tr.magnitude(1, 500)
		}
		if l, err := s.Compile(); err == nil {
			return l
		}
	}
	tr.t.Fatalf("no numbers suit %+v", s)
	return stint.Limit{}
}

func (tr *traffic) shape(a stint.Algorithm, s *stint.Spec) {
	s.Algorithm = a
	s.Window = time.Duration(tr.magnitude(1000, stint.MaxWindow.Microseconds())) * time.Microsecond
	switch a {
	case stint.SlidingWindowCounter:
		if s.Buckets = 1; tr.rng.IntN(2) == 0 {
			s.Buckets += tr.rng.IntN(stint.MaxBuckets)
		}
		width := (s.Window / time.Duration(s.Buckets)).Truncate(time.Microsecond)
		s.Window = max(width, time.Millisecond) * time.Duration(s.Buckets)
	case stint.Quota:
		s.Window = 0
		s.Period = []string{"day", "week", "month", "17h", "45d"}[tr.rng.IntN(5)]
		s.Anchor = time.UnixMicro(tr.now + tr.magnitude(1, 1<<46)).UTC().Format(time.RFC3339)
		s.UTCOffset = fmt.Sprintf("%+03d:%02d", tr.rng.IntN(25)-12, tr.rng.IntN(60))
	}
}
