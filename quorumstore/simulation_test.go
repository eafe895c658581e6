package quorumstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/cas"
)

// simulation is one run: servers, a network that loses, delays, repeats and holds messages,
// and nodes that take from the store over it, in virtual time.
type simulation struct {
	random    *simRandom
	steady    bool // all messages take equally long
	reckless  bool // a majority may lose its data
	split     bool // the claims on the short limit are of other keys, so some calls write two
	rules     rules
	midWindow time.Duration
	begun     time.Time
	servers   []*simServer
	nodes     []*simNode
	history   []*simTake
	trace     *trace
	replacer  *backend     // makes the replacement, and does not restart; nil: there is none
	replace   func() error // has it do so; nil: there is none
	recovers  bool         // all servers must be whole at the end
	mu        sync.Mutex   // guards history, and the processes of nodes
	calm      atomic.Bool  // no more faults
	changed   atomic.Bool  // the short limit has other numbers
	mixed     atomic.Bool  // for half of the nodes
	varied    atomic.Bool  // it has had them
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

// simNode is one node. Its process may end, and another one begin.
type simNode struct {
	sim     *simulation
	index   int
	links   []*link
	servers []server
	backend *backend
	store   *cas.Store
}

// simTake is a call and its answer.
type simTake struct {
	node     int
	key      string
	cost     int64
	short    bool // it has a claim on the short limit
	mid      bool
	long     bool
	split    bool   // the claim on the short limit is of another key
	once     string // the id of a call that may be repeated, or empty
	repeated bool   // the answer is that of an earlier call
	at       int64  // of the decision
	midAt    int64  // of that on the mid limit
	from, to time.Time
	allowed  bool
	noShort  bool       // the short limit denied it
	noMid    bool       // the mid limit did
	used     int        // units of the long limit, after the call
	code     stint.Code // of the error
	err      error
}

// shortKey returns the key of the claim on the short limit.
func (h *simTake) shortKey() string {
	if h.split {
		return h.key + " apart"
	}
	return h.key
}

func (h *simTake) mayRepeat() *stint.Once {
	if h.once == "" {
		return nil
	}
	return &stint.Once{ID: h.once}
}

// unknown reports whether the call may have been charged although it failed.
func (h *simTake) unknown() bool {
	return h.code == stint.CodeTimeout || h.code == stint.CodeCanceled
}

const simTimeout = 100 * time.Millisecond

// newSimulation returns three nodes and some servers, whose clocks are apart.
func newSimulation(seed uint64, servers int, r rules, skew time.Duration) *simulation {
	s := &simulation{random: &simRandom{r: rand.New(rand.NewPCG(seed, 23))}, rules: r, begun: time.Now(), midWindow: 5 * time.Second}
	if s.random.chance(0.5) {
		s.midWindow = 20 * time.Second
	}
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
	before := s.nodes[0].backend.hash
	s.replacer = s.addNodeOf(members...).backend
	s.addNodeOf(members...)
	s.replace = func() error {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		return s.replacer.replace(ctx, last, before)
	}
	go func() {
		for time.Sleep(s.random.between(time.Second, 30*time.Second)); ; time.Sleep(s.random.between(time.Millisecond, 10*time.Second)) {
			if err := s.replace(); err == nil || s.calm.Load() {
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
	for _, i := range members {
		l := &link{simServer: s.servers[i], node: n.index, members: len(members)}
		n.links = append(n.links, l)
		n.servers = append(n.servers, markedLink{l})
	}
	n.start()
	s.nodes = append(s.nodes, n)
	return n
}

// start begins the process of a node, which knows nothing.
func (n *simNode) start() {
	s := n.sim
	b := newBackend(n.servers, backendOptions{Timeout: simTimeout})
	b.ageless, b.bareRead, b.noOutliving = s.rules.noAge, s.rules.noFinish, s.rules.noOutliving
	b.noRepairCheck, b.noRepairWait, b.noFoundingCheck = s.rules.noRepairCheck, s.rules.noRepairWait, s.rules.noFoundingCheck
	b.proposes = func(p *proposal, chosen []part) { s.trace.proposal(n.index, p, chosen) }
	n.backend = b
	keepFor := time.Duration(0)
	if s.rules.keepsRows {
		keepFor = stint.RememberFor
	}
	n.store = cas.New(b, cas.Options{Name: "quorumstore", Heartbeat: -1, Timeout: simTimeout, Slack: b.slack, KeepFor: keepFor, KeepNew: true})
}

// restart ends the process of a node, and begins another one. No call of the node is in flight.
func (n *simNode) restart() {
	_ = n.store.Close()
	n.sim.mu.Lock()
	defer n.sim.mu.Unlock()
	n.start()
	n.sim.trace.add(&traceEvent{kind: traceText, node: int8(n.index), server: -1, text: "restarts"})
}

// process returns the backend of the process of a node, which may restart meanwhile.
func (n *simNode) process() *backend {
	n.sim.mu.Lock()
	defer n.sim.mu.Unlock()
	return n.backend
}

// anyNode returns a random node.
func (s *simulation) anyNode() *simNode { return s.nodes[s.random.n(len(s.nodes))] }

const (
	simBurst = 4
	simQuota = 1000

	simMidLimit = 4
)

// The short limit is of class 2, and of class 8 once its numbers are changed. The long one is
// of class 17.
var simShort, simChanged, simLong = simLimit(stint.Spec{Rule: "short", Name: "short", Capacity: simBurst, RefillRate: "1"}),
	simLimit(stint.Spec{Rule: "short", Name: "short", Capacity: simBurst, RefillRate: "0.02"}),
	simLimit(stint.Spec{Rule: "long", Algorithm: stint.FixedWindow, Limit: simQuota, Window: 24 * time.Hour})

// The windows of the mid limit end within a run. It is of class 3 in half of the runs, and of class 5 in
// the others.
var simMids = map[time.Duration]stint.Limit{5 * time.Second: simMid(5 * time.Second), 20 * time.Second: simMid(20 * time.Second)}

func simMid(window time.Duration) stint.Limit {
	return simLimit(stint.Spec{Rule: "mid", Algorithm: stint.FixedWindow, Limit: simMidLimit, Window: window})
}

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
	return n.call(&simTake{key: key, cost: cost, short: short, long: long})
}

// call makes a call, and notes its answer in it.
func (n *simNode) call(h *simTake) *simTake {
	var claims []stint.Claim
	add := func(wanted bool, key string, l stint.Limit) (at int) {
		if wanted {
			claims = append(claims, stint.Claim{Key: key, Limit: l, Cost: h.cost})
		}
		return len(claims) - 1
	}
	h.split = n.sim.split
	short := simShort
	if n.sim.changed.Load() && (n.index%2 == 0 || !n.sim.mixed.Load()) {
		short = simChanged
	}
	shortAt, midAt, longAt := add(h.short, h.shortKey(), short), add(h.mid, h.key, simMids[n.sim.midWindow]), add(h.long, h.key, simLong)
	ctx, cancel := context.WithTimeout(context.Background(), 5*simTimeout)
	defer cancel()
	out := make([]stint.Decision, len(claims))
	h.node, h.from = n.index, time.Now()
	err := n.store.TakeGroups(ctx, []stint.Group{{Once: h.mayRepeat(), Claims: claims}}, out)
	h.to = time.Now()
	if err != nil {
		if g, ok := errors.AsType[*stint.GroupsError](err); ok {
			err = g.Errs[0]
		}
		h.err, h.code = err, stint.CodeOf(err)
	} else {
		_, d := stint.Combine(claims, out)
		h.allowed, h.repeated, h.at = d.Allowed, d.Repeated, out[0].At
		if h.short {
			h.noShort = !out[shortAt].Allowed
		}
		if h.mid {
			h.noMid, h.midAt = !out[midAt].Allowed, out[midAt].At
		}
		if h.long {
			h.used = simQuota - int(out[longAt].Remaining)
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
				if s.random.chance(0.02) {
					n.restart()
				}
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
			if s.random.chance(0.5) {
				s.repair()
			} else {
				s.tend()
			}
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
	second, what, mid := false, r.n(4), r.chance(0.2)
	for range 1 + r.n(6) {
		if r.chance(0.3) {
			second, what, mid = !second, r.n(4), r.chance(0.2)
		}
		var h *simTake
		if second && time.Since(n.sim.begun)%simPhase < simInUse {
			h = n.takeN("short", int64(1+r.n(simBurst)), true, false)
		} else {
			h = n.call(&simTake{key: "k", cost: 1, short: what != 0, mid: mid, long: what == 0 || what == 3})
		}
		if h.err != nil {
			return
		}
	}
}

// fault is one random fault.
func (s *simulation) fault() {
	sv := s.servers[s.random.n(len(s.servers))]
	switch s.random.n(13) {
	case 12:
		s.setClock(sv, s.random.between(3*time.Second, 20*time.Second))
	case 11:
		s.anyNode().pause(s.random.between(10*time.Millisecond, 20*time.Second))
	case 10:
		s.lose(sv, sv.wipe)
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
		s.varied.Store(true)
		s.mixed.Store(s.random.chance(0.5))
		s.changed.Store(!s.changed.Load())
	case 5:
		s.setClock(sv, -s.random.between(2*time.Second, 10*time.Second))
	case 6:
		n := s.anyNode()
		l := n.links[s.random.n(len(n.links))]
		l.setCut(true)
		time.AfterFunc(s.random.between(10*time.Millisecond, 5*time.Second), func() { l.setCut(false) })
	case 7:
		s.failTogether()
	}
}

// setClock sets the clock of a server for a time, unless those of a minority are wrong. The time of
// the quorum is that of a majority.
func (s *simulation) setClock(sv *simServer, d time.Duration) {
	wrong := 0
	for _, other := range s.servers {
		if other.clockIsWrong() {
			wrong++
		}
	}
	if wrong < s.minority() {
		s.lose(sv, func() { sv.setClock(d) })
	}
}

// restart restarts a server.
func (s *simulation) restart(sv *simServer, fromDisk bool) {
	s.lose(sv, func() { sv.restart(fromDisk) })
}

// lose has a server lose its data in some way. A majority that lost its data refuses most calls for
// the rest of the run, so only a reckless run does that. It leaves one server whole: where all are
// empty, a process that has seen none of them before cannot know that this is not a new quorum.
func (s *simulation) lose(sv *simServer, how func()) {
	others := 0
	for _, other := range s.servers {
		if other != sv && !other.whole() {
			others++
		}
	}
	if others < s.minority() || s.reckless && others < len(s.servers)-1 {
		how()
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
	b := s.anyNode().process()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	_ = b.repair(ctx, b.members[s.random.n(len(b.members))])
}

// tend has a random node look after the marks, as each does in the background.
func (s *simulation) tend() {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	_ = s.anyNode().process().tend(ctx)
}

// heal ends all faults, makes the replacement, and repairs all servers. It returns an error if that is
// not possible although a majority is whole.
func (s *simulation) heal() error {
	s.calm.Store(true)
	for _, sv := range s.servers {
		sv.disarm()
	}
	time.Sleep(10 * time.Second)
	last := s.nodes[len(s.nodes)-1]
	once := func(f func(context.Context) error) error {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		return f(ctx)
	}
	for _, n := range s.nodes {
		_ = once(n.backend.tend) // what each knows of clocks is told now
	}
	whole := 0
	for _, l := range last.links {
		if l.whole() && !s.distrusts(l.simServer) {
			whole++
		}
	}
	var failed error
	for range 5 {
		failed = nil
		if s.replace != nil {
			failed = s.replace()
		}
		for _, m := range last.backend.members {
			_ = once(last.backend.tend)
			failed = errors.Join(failed, once(func(ctx context.Context) error { return last.backend.repair(ctx, m) }))
		}
		time.Sleep(4 * time.Second)
	}
	if s.recovers = whole >= last.backend.majority; s.recovers && failed != nil {
		return fmt.Errorf("no recovery: %w", failed)
	}
	return nil
}

// distrusts reports whether some process knows that the clock of a server ran back. One with the list of
// after a replacement tells that to a server of the list of before as it makes the replacement.
func (s *simulation) distrusts(sv *simServer) bool {
	processes := []*backend{}
	for _, n := range s.nodes {
		processes = append(processes, n.backend)
	}
	if s.replacer != nil {
		processes = append(processes, s.replacer)
	}
	for _, b := range processes {
		for _, m := range b.members {
			if m.name() == sv.name() && !m.trusts(sv.marked().incarnation) {
				return true
			}
		}
	}
	return false
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

// steadily runs a script on some servers whose clocks agree, and on which nothing fails but what the
// script does. It begins at a time of the day.
func steadily(t *testing.T, servers int, at time.Duration, script func(t *testing.T, s *simulation)) {
	t.Helper()
	steadilyBy(t, rules{}, servers, at, script)
}

// steadilyBy is steadily under rules of the simulation.
func steadilyBy(t *testing.T, r rules, servers int, at time.Duration, script func(t *testing.T, s *simulation)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(at)
		s := newSimulation(1, servers, r, 0)
		s.steady = true
		s.found(t)
		s.calm.Store(true)
		script(t, s)
		closeAll(s)
	})
}

func longClaim(key string) stint.Claim { return stint.Claim{Key: key, Limit: simLong} }

// elapse lets virtual time pass.
func elapse(d time.Duration) { time.Sleep(d) }
