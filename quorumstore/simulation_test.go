package quorumstore

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/cas"
)

var (
	simulations = flag.Int("quorumstore.runs", 0, "runs of the simulation; 0: a number for the tests of a build")
	firstSeed   = flag.Uint64("quorumstore.seed", 0, "the seed of the first run of the simulation")
)

// simulation is one run: servers, a network that loses, delays, repeats and holds messages,
// and nodes that take from the store over it, in virtual time.
type simulation struct {
	random   *simRandom
	steady   bool // all messages take equally long
	reckless bool // a majority may lose its data
	rules    rules
	begun    time.Time
	servers  []*simServer
	nodes    []*simNode
	history  []*simTake
	trace    *trace
	mu       sync.Mutex  // guards history
	calm     atomic.Bool // no more faults
	changed  atomic.Bool // the short limit has other numbers
}

// simRandom is a source of random numbers for several goroutines.
type simRandom struct {
	mu sync.Mutex
	r  *rand.Rand
}

func (r *simRandom) n(n int) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.r.IntN(n)
}

// some returns k different numbers below n.
func (r *simRandom) some(k, n int) []int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.r.Perm(n)[:k]
}

func (r *simRandom) chance(p float64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.r.Float64() < p
}

func (r *simRandom) between(from, to time.Duration) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return from + time.Duration(r.r.Int64N(int64(to-from)))
}

// simNode is one process.
type simNode struct {
	sim     *simulation
	index   int
	links   []*link
	backend *backend
	store   *cas.Store
}

// simTake is a call and its answer.
type simTake struct {
	node     int
	key      string
	cost     int64
	short    bool // it has a claim on the short limit
	long     bool
	at       int64 // of the decision
	from, to time.Time
	allowed  bool
	used     int        // units of the long limit, after the call
	code     stint.Code // of the error
	err      error
}

const simTimeout = 100 * time.Millisecond

// newSimulation returns three nodes and some servers, whose clocks are apart.
func newSimulation(seed uint64, servers int, r rules, skew time.Duration) *simulation {
	s := &simulation{random: &simRandom{r: rand.New(rand.NewPCG(seed, 23))}, rules: r, begun: time.Now()}
	s.trace = &trace{begun: s.begun, events: make([]traceEvent, 0, 1<<11)}
	for range servers {
		s.addServer()
		s.servers[len(s.servers)-1].offset = s.random.between(0, skew+1)
	}
	for range 3 {
		s.addNode()
	}
	return s
}

// addServer adds a server whose clock is right.
func (s *simulation) addServer() {
	sv := &simServer{sim: s, index: len(s.servers)}
	sv.memoryServer = newMemoryServer(fmt.Sprint("s", sv.index), func() int64 { return time.Now().Add(sv.offset).UnixMicro() })
	sv.rules = &s.rules
	s.servers = append(s.servers, sv)
}

// minority returns how many servers may fail at once.
func (s *simulation) minority() int { return (len(s.nodes[0].links) - 1) / 2 }

// replaces adds a server, and nodes that have it in the place of the last one, and replaces that
// in the background until it is done.
func (s *simulation) replaces() {
	last := len(s.servers) - 1
	members := make([]int, len(s.servers))
	for i := range last {
		members[i] = i
	}
	members[last] = last + 1
	s.addServer()
	before, tool := s.nodes[0].backend.hash, s.addNodeOf(members...).backend
	s.addNodeOf(members...)
	go func() {
		for time.Sleep(s.random.between(time.Second, 30*time.Second)); ; time.Sleep(s.random.between(time.Millisecond, 10*time.Second)) {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			err := tool.replace(ctx, last, before)
			cancel()
			if err == nil || s.calm.Load() {
				return
			}
		}
	}()
}

// addNode adds a node of all servers.
func (s *simulation) addNode() *simNode {
	members := make([]int, len(s.servers))
	for i := range members {
		members[i] = i
	}
	return s.addNodeOf(members...)
}

// addNodeOf adds a node whose list of members is some servers.
func (s *simulation) addNodeOf(members ...int) *simNode {
	n := &simNode{sim: s, index: len(s.nodes)}
	var servers []server
	for _, i := range members {
		l := &link{simServer: s.servers[i], node: n.index}
		n.links = append(n.links, l)
		servers = append(servers, markedLink{l})
	}
	b := newBackend(servers, backendOptions{Timeout: simTimeout})
	b.ageless, b.bareRead = s.rules.noAge, s.rules.noFinish
	b.noRepairCheck, b.noRepairWait, b.noFoundingCheck = s.rules.noRepairCheck, s.rules.noRepairWait, s.rules.noFoundingCheck
	b.proposes = func(p *proposal, chosen []part) { s.trace.proposal(n.index, p, chosen) }
	n.backend = b
	n.store = cas.New(b, cas.Options{Name: "quorumstore", Heartbeat: -1, Timeout: simTimeout, Slack: time.Second, KeepNew: true})
	s.nodes = append(s.nodes, n)
	return n
}

const (
	simBurst = 4
	simQuota = 1000
)

// The short limit is of class 2, and of class 8 once its numbers are changed. The long one is
// of class 17.
var simShort, simChanged, simLong = simLimit(stint.Spec{Rule: "short", Name: "short", Capacity: simBurst, RefillRate: "1"}),
	simLimit(stint.Spec{Rule: "short", Name: "short", Capacity: simBurst, RefillRate: "0.02"}),
	simLimit(stint.Spec{Rule: "long", Algorithm: stint.FixedWindow, Limit: simQuota, Window: 24 * time.Hour})

func simLimit(s stint.Spec) stint.Limit {
	l, err := s.Compile()
	if err != nil {
		panic(err)
	}
	return l
}

// take makes one call of cost 1.
func (n *simNode) take(key string, short, long bool) *simTake {
	return n.takeN(key, 1, short, long)
}

// takeN makes one call.
func (n *simNode) takeN(key string, cost int64, short, long bool) *simTake {
	var claims []stint.Claim
	if short {
		c := stint.Claim{Key: key, Limit: simShort, Cost: cost}
		if n.sim.changed.Load() {
			c.Limit = simChanged
		}
		claims = append(claims, c)
	}
	if long {
		claims = append(claims, stint.Claim{Key: key, Limit: simLong, Cost: cost})
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*simTimeout)
	defer cancel()
	out := make([]stint.Decision, len(claims))
	h := &simTake{node: n.index, key: key, cost: cost, short: short, long: long, from: time.Now()}
	err := n.store.TakeGroups(ctx, []stint.Group{{Claims: claims}}, out)
	h.to = time.Now()
	if err != nil {
		if g, ok := errors.AsType[*stint.GroupsError](err); ok {
			err = g.Errs[0]
		}
		h.err, h.code = err, stint.CodeOf(err)
	} else {
		_, d := stint.Combine(claims, out)
		h.allowed, h.at = d.Allowed, out[0].At
		if long {
			h.used = simQuota - int(out[len(out)-1].Remaining)
		}
	}
	n.sim.trace.took(h)
	n.sim.mu.Lock()
	defer n.sim.mu.Unlock()
	n.sim.history = append(n.sim.history, h)
	return h
}

// run makes random calls and faults for a time, and then heals all.
func (s *simulation) run(lasts time.Duration, fault func()) {
	var all sync.WaitGroup
	end := time.Now().Add(lasts)
	for _, n := range s.nodes {
		all.Go(func() {
			for time.Now().Before(end) {
				pace := 1500 * time.Millisecond
				if s.random.chance(0.05) {
					pace = 4 * time.Second
				}
				time.Sleep(s.random.between(time.Millisecond, pace))
				n.takeSome()
			}
		})
	}
	calmness := time.Second << s.random.n(5)
	all.Go(func() {
		for time.Now().Before(end) {
			time.Sleep(s.random.between(10*time.Millisecond, calmness))
			fault()
		}
	})
	all.Go(func() {
		for time.Now().Before(end) {
			time.Sleep(s.random.between(10*time.Millisecond, 2*time.Second))
			s.repair()
		}
	})
	all.Wait()
}

// The second key is used for a time, and then not for so long that its rows expire.
const (
	simPhase = 12 * time.Second
	simInUse = 3 * time.Second
)

// takeSome makes some calls at once, mostly on the same key, so that some calls need not read. Some
// calls on the second key cost several units, so that one call too much exceeds the law.
func (n *simNode) takeSome() {
	r := n.sim.random
	second, what := false, r.n(4)
	for range 1 + r.n(6) {
		if r.chance(0.3) {
			second, what = !second, r.n(4)
		}
		var h *simTake
		if second && time.Since(n.sim.begun)%simPhase < simInUse {
			h = n.takeN("short", int64(1+r.n(simBurst)), true, false)
		} else {
			h = n.take("k", what != 0, what == 0 || what == 3)
		}
		if h.err != nil {
			return
		}
	}
}

// fault is one random fault.
func (s *simulation) fault() {
	sv := s.servers[s.random.n(len(s.servers))]
	switch s.random.n(10) {
	case 8:
		sv.trap(false)
	case 9:
		sv.trap(true)
	case 0:
		s.restart(sv, false)
	case 1:
		s.restart(sv, true)
	case 2:
		sv.save()
	case 3:
		sv.freeze(s.random.between(10*time.Millisecond, 8*time.Second))
	case 4:
		s.changed.Store(!s.changed.Load())
	case 5:
		s.servers[s.random.n(s.minority())].runBack(s.random.between(2*time.Second, 10*time.Second))
	case 6:
		n := s.nodes[s.random.n(len(s.nodes))]
		l := n.links[s.random.n(len(n.links))]
		l.setCut(true)
		time.AfterFunc(s.random.between(10*time.Millisecond, 5*time.Second), func() { l.setCut(false) })
	case 7:
		s.failTogether()
	}
}

// restart restarts a server. A majority that lost its data refuses most calls for the rest of the
// run, so only a reckless run does that. It leaves one server whole: where all are empty, a process
// that has seen none of them before cannot know that this is not a new quorum.
func (s *simulation) restart(sv *simServer, fromDisk bool) {
	others := 0
	for _, other := range s.servers {
		if other != sv && !other.whole() {
			others++
		}
	}
	if others < s.minority() || s.reckless && others < len(s.servers)-1 {
		sv.restart(fromDisk)
	}
}

// failTogether has a minority of the servers fail at once, all in the same way.
func (s *simulation) failTogether() {
	how, lasts := s.random.n(4), s.random.between(10*time.Millisecond, 8*time.Second)
	for _, i := range s.random.some(s.minority(), len(s.servers)) {
		if how >= 2 {
			s.servers[i].freeze(lasts)
		}
		if how <= 2 {
			s.restart(s.servers[i], how == 1)
		}
	}
}

// repair has a random node repair a random server.
func (s *simulation) repair() {
	n := s.nodes[s.random.n(len(s.nodes))]
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	_ = n.backend.repair(ctx, n.backend.members[s.random.n(len(n.backend.members))])
}

// heal ends all faults, and repairs all servers.
func (s *simulation) heal() {
	s.calm.Store(true)
	time.Sleep(10 * time.Second)
	for range 3 {
		last := s.nodes[len(s.nodes)-1].backend
		for _, m := range last.members {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			_ = last.tend(ctx)
			_ = last.repair(ctx, m)
			cancel()
		}
		time.Sleep(4 * time.Second)
	}
}

// found waits until the quorum is one.
func (s *simulation) found(t testing.TB) {
	t.Helper()
	calm := s.calm.Load()
	s.calm.Store(true)
	if err := s.nodes[0].backend.tend(context.Background()); err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Second)
	s.calm.Store(calm)
}

// simSkew is how far the clocks of the servers are apart.
const simSkew = 300 * time.Millisecond

// simulate makes one run of a script on three servers, on which nothing fails but what the script
// does, and returns what is wrong.
func simulate(t *testing.T, r rules, script func(s *simulation) error) (s *simulation, wrong error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(12 * time.Hour)
		s = newSimulation(1, 3, r, simSkew)
		s.steady = true
		s.found(t)
		s.calm.Store(true)
		wrong = script(s)
		closeAll(s)
	})
	return s, wrong
}

// simulateFaults makes one run with random faults, and returns what is wrong.
func simulateFaults(t *testing.T, seed uint64, servers int, replaced bool) (s *simulation, wrong error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(12 * time.Hour)
		s = newSimulation(seed, servers, rules{}, simSkew)
		s.found(t)
		s.reckless = s.random.chance(0.2) && !replaced // the list of a replacement has an empty server
		if replaced {
			s.replaces()
		}
		s.run(3*simPhase, s.fault)
		s.heal()
		wrong = s.check(simSkew)
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
func simulateAll(t *testing.T, runs int, replaced bool) *simTotals {
	t.Helper()
	totals := &simTotals{failed: map[stint.Code]int{}}
	if *simulations > 0 {
		runs = *simulations
	} else if testing.Short() {
		runs /= 20
	}
	defer debug.SetGCPercent(debug.SetGCPercent(800)) // a run allocates much and keeps little
	var next atomic.Uint64
	t.Run("runs", func(t *testing.T) {
		for range runtime.GOMAXPROCS(0) {
			t.Run("", func(t *testing.T) {
				t.Parallel()
				for i := next.Add(1); i <= uint64(runs) && !t.Failed(); i = next.Add(1) {
					seed := *firstSeed + i - 1
					s, wrong := simulateFaults(t, seed, serversOf(seed), replaced)
					if wrong != nil {
						t.Errorf("seed %d, %d servers: %v\n%s", seed, serversOf(seed), wrong, s.trace)
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
	simulateAll(t, 1000, false)
}

// A server is replaced while processes of both lists make calls, and anything fails.
func TestSimulationOfAReplacement(t *testing.T) { //nolint:tparallel // its subtests are those of simulateAll
	t.Parallel()
	if totals := simulateAll(t, 500, true); totals.byNewList == 0 {
		t.Error("the new list admitted nothing")
	}
}

func longClaim(key string) stint.Claim { return stint.Claim{Key: key, Limit: simLong} }

// elapse lets virtual time pass.
func elapse(d time.Duration) { time.Sleep(d) }
