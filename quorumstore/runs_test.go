package quorumstore

import (
	"errors"
	"flag"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stintdev/stint"
)

var (
	simulations = flag.Int("quorumstore.runs", 0, "runs of the simulation; 0: a number for the tests of a build")
	firstSeed   = flag.Uint64("quorumstore.seed", 0, "the seed of the first run of the simulation")
)

// simulateFaults makes one run with random faults, and returns what is wrong.
func simulateFaults(t *testing.T, seed uint64, servers int) (*simulation, error) {
	t.Helper()
	return simulateRun(t, seed, servers, false)
}

// simulateReplacement is simulateFaults while a server is replaced.
func simulateReplacement(t *testing.T, seed uint64, servers int) (*simulation, error) {
	t.Helper()
	return simulateRun(t, seed, servers, true)
}

func simulateRun(t *testing.T, seed uint64, servers int, replaced bool) (s *simulation, wrong error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(12 * time.Hour)
		skew := simSkew
		if seed%4 == 1 {
			skew = 900 * time.Millisecond
		}
		s = newSimulation(seed, servers, rules{}, skew)
		s.found(t)
		s.reckless = s.random.chance(0.2) && !replaced // the list of a replacement has an empty server
		if replaced {
			s.replaces()
		}
		s.run(3*simPhase, s.fault)
		wrong = errors.Join(s.heal(), s.check(skew))
		closeAll(s)
	})
	return s, wrong
}

func closeAll(s *simulation) {
	for _, n := range s.nodes {
		_ = n.store.Close()
	}
	time.Sleep(time.Minute) // until all messages have arrived
}

// simTotals counts the calls of several runs.
type simTotals struct {
	mu              sync.Mutex
	allowed, denied int // guarded by mu
	byNewList       int // guarded by mu: allowed by nodes that were added
	failed          map[stint.Code]int
}

func (c *simTotals) add(s *simulation) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, h := range s.history {
		switch {
		case h.err != nil:
			c.failed[h.code]++
		case h.allowed:
			c.allowed++
			if h.node > 2 {
				c.byNewList++
			}
		default:
			c.denied++
		}
	}
}

// serversOf returns how many servers the run of a seed has. Most have three, as most quorums do.
func serversOf(seed uint64) int { return [...]int{3, 5, 3, 7, 3, 3, 5, 3}[seed%8] }

// simulateAll makes many runs, several at once, and adds up their calls. A run that fails prints its
// trace. With the race detector a run takes seven times as long, so -short makes few.
func simulateAll(t *testing.T, runs int, run func(t *testing.T, seed uint64, servers int) (*simulation, error)) *simTotals {
	t.Helper()
	totals := &simTotals{failed: map[stint.Code]int{}}
	if *simulations > 0 {
		runs = *simulations
	} else if testing.Short() {
		runs /= 20
	}
	// A run allocates much and keeps little. The pools of a store keep it for two collections, so with much
	// rarer ones the memory grows without end.
	defer debug.SetGCPercent(debug.SetGCPercent(200))
	var next atomic.Uint64
	t.Run("runs", func(t *testing.T) {
		for range runtime.GOMAXPROCS(0) {
			t.Run("", func(t *testing.T) {
				t.Parallel()
				for i := next.Add(1); i <= uint64(runs) && !t.Failed(); i = next.Add(1) {
					seed := *firstSeed + i - 1
					s, wrong := run(t, seed, serversOf(seed))
					if wrong != nil {
						t.Errorf("seed %d, %d servers: %v\n%s", seed, len(s.servers), wrong, s.trace)
					}
					totals.add(s)
					if i%1000 == 0 {
						t.Logf("%d runs", i)
					}
				}
			})
		}
	})
	t.Logf("%d allowed, %d denied, failed %v", totals.allowed, totals.denied, totals.failed)
	return totals
}

// Whatever fails, nothing is admitted twice, nothing is charged twice, and a call that fails
// with an error other than a timeout charges nothing.
func TestSimulation(t *testing.T) { //nolint:tparallel // its subtests are those of simulateAll
	t.Parallel()
	simulateAll(t, 1000, simulateFaults)
}

// A server is replaced while processes of both lists make calls, and anything fails.
func TestSimulationOfAReplacement(t *testing.T) { //nolint:tparallel // its subtests are those of simulateAll
	t.Parallel()
	if totals := simulateAll(t, 500, simulateReplacement); totals.byNewList == 0 {
		t.Error("the new list admitted nothing")
	}
}
