package postgresstore

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/cas"
	"github.com/stintdev/stint/internal/pgtest"
)

// timed is a check with its begin, its end and the time of its decision, in µs. The server has
// the clock of this machine.
type timed struct {
	from, to int64
	stint.Decision
}

func timedTake(t *testing.T, s *Store, c stint.Claim) (k timed) {
	t.Helper()
	var err error
	k.from = time.Now().UnixMicro()
	k.Decision, err = s.Take(inTime(t), c)
	k.to = time.Now().UnixMicro()
	if err != nil {
		t.Error(err)
	} else if k.At < k.from || k.At > k.to {
		t.Errorf("a check from %d to %d was decided at %d", k.from, k.to, k.At)
	}
	return k
}

// A check whose row the node remembers is decided at a time between its begin and its end.
func TestRememberedRowsAreDecidedInTime(t *testing.T) {
	s := openStore(t, withPassword(pgtest.Start(t).URL()))
	comesBack(t, s.backend)
	claim := stint.Claim{Key: "k", Limit: stint.MustParseLimit("100000/s"), Cost: 1}
	const checks = 500
	for range checks {
		timedTake(t, s, claim)
	}
	if st := s.Stats(); st.Remembered < checks/5 {
		t.Errorf("of %d checks, %d rows were remembered and %d early", checks, st.Remembered, st.Early)
	}
}

// Callers aim at the edges of windows, some microseconds before and after. Each check counts in
// a window that overlaps with it, and no window admits more than the limit.
func TestWindowsAreExactAtTheirEdges(t *testing.T) {
	s := pgtest.Start(t)
	nodes := []*Store{openStore(t, withPassword(s.URL())), openStore(t, withPassword(s.PgBouncer().URL()))}
	for _, node := range nodes {
		comesBack(t, node.backend)
	}
	const (
		window  = 10 * time.Millisecond
		windows = 200
		limit   = 6
	)
	perWindow, err := stint.Spec{Algorithm: stint.FixedWindow, Limit: limit, Window: window}.Compile()
	if err != nil {
		t.Fatal(err)
	}
	admitted := map[string]map[int64]int{"a": {}, "b": {}} // by the window of the decision
	inside := map[string]map[int64]int{"a": {}, "b": {}}   // by a window that has the whole check
	count := func(key string, k timed) {
		if !k.Allowed {
			return
		}
		in := func(at int64) int64 { return at / window.Microseconds() }
		admitted[key][in(k.At)]++
		if in(k.from) == in(k.to) {
			inside[key][in(k.from)]++
		}
	}
	var mu sync.Mutex
	var callers sync.WaitGroup
	for i := range 4 {
		key := []string{"a", "b"}[i%2] // each node has a key of its own
		callers.Go(func() {
			for range windows {
				edge := time.Now().Truncate(window).Add(window)
				await(edge.Add(-2 * time.Millisecond))
				aim := edge.Add(time.Duration(rand.Int64N(200)-100) * time.Microsecond)
				// The first check lets the node remember the row.
				checks := []timed{timedTake(t, nodes[i%2], stint.Claim{Key: key, Limit: perWindow, Cost: 1})}
				await(aim)
				for range 4 {
					checks = append(checks, timedTake(t, nodes[i%2], stint.Claim{Key: key, Limit: perWindow, Cost: 1}))
				}
				mu.Lock()
				for _, k := range checks {
					count(key, k)
				}
				mu.Unlock()
			}
		})
	}
	callers.Wait()
	remembered := uint64(0)
	for i, node := range nodes {
		st := node.Stats()
		t.Logf("node %d: %d swaps, of which %d were remembered, and %d early", i, st.Swaps, st.Remembered, st.Early)
		remembered += st.Remembered
	}
	if remembered < windows {
		t.Errorf("%d rows were remembered", remembered)
	}
	for name, counts := range map[string]map[string]map[int64]int{"admitted": admitted, "inside": inside} {
		for key, windows := range counts {
			for at, n := range windows {
				if n > limit {
					t.Errorf("%s: %d of %d in window %d of %s", name, n, limit, at, key)
				}
			}
		}
	}
}

// await returns at a time, to within microseconds.
func await(at time.Time) {
	for time.Until(at) > 0 {
		runtime.Gosched()
	}
}

// A swap that was decided at a time that the server does not show yet is lost, and so are
// those of its batch.
func refusesEarlySwaps(t *testing.T, b *backend) {
	first := []cas.Swap{swapOf("early a", 0, "one"), swapOf("early b", 0, "one")}
	swapped(t, b.Swap, first, cas.Done, cas.Done)
	now, err := b.Load(inTime(t), []cas.Load{{Key: "early a"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		ahead time.Duration
		want  cas.Outcome
	}{{time.Minute, cas.Lost}, {30 * time.Second, cas.Lost}, {0, cas.Done}} {
		next := []cas.Swap{swapOf("early a", first[0].Version, "two"), swapOf("early b", first[1].Version, "two"), swapOf(fmt.Sprint("early c", c.ahead), 0, "one")}
		next[1].NotBefore = now.Add(c.ahead)
		at, err := b.Swap(inTime(t), next)
		if err != nil || at.Before(now) || at.Before(next[1].NotBefore) != (c.want == cas.Lost) {
			t.Error(at, err)
		}
		for i := range next {
			if next[i].Outcome != c.want {
				t.Errorf("%v ahead: outcome %d of swap %d", c.ahead, next[i].Outcome, i)
			}
		}
	}
}
