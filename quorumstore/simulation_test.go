package quorumstore

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
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
	random  *simRandom
	steady  bool // all messages take equally long
	rules   rules
	begun   time.Time
	servers []*simServer
	nodes   []*simNode
	history []simTake
	mu      sync.Mutex  // guards history
	calm    atomic.Bool // no more faults
	changed atomic.Bool // the short limit has other numbers
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

// simServer is a memoryServer that can restart, freeze and have a wrong clock.
type simServer struct {
	*memoryServer

	sim    *simulation
	offset time.Duration // of its clock
	disk   map[string]row
	saved  mark
	thaw   chan struct{} // not nil: frozen until it is closed
	down   bool
	behind bool // its clock was set back
}

func (s *simServer) restart(fromDisk bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.run++
	s.rows, s.mark = map[string]row{}, mark{}
	if fromDisk {
		s.mark = s.saved
		maps.Copy(s.rows, s.disk)
	}
}

func (s *simServer) save() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.saved, s.disk = s.mark, maps.Clone(s.rows)
}

func (s *simServer) freeze(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.thaw != nil {
		return
	}
	thaw := make(chan struct{})
	s.thaw = thaw
	time.AfterFunc(d, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.thaw = nil
		close(thaw)
	})
}

// runBack sets the clock back for a time.
func (s *simServer) runBack(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.behind {
		return
	}
	s.behind, s.offset = true, s.offset-d
	time.AfterFunc(s.sim.random.between(10*time.Millisecond, 8*time.Second), func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.behind, s.offset = false, s.offset+d
	})
}

// link is the connection of one node to one server.
type link struct {
	*simServer

	cut  bool                         // guarded by mu of the server
	hold func(*request) time.Duration // guarded by mu: how long a request is under way, or another call (nil) waits to be sent
}

// holds sets how long requests to a server are under way.
func (n *simNode) holds(server int, f func(*request) time.Duration) {
	l := n.links[server]
	l.mu.Lock()
	defer l.mu.Unlock()
	l.hold = f
}

// setCut cuts the links of a node to some servers, and no others.
func (n *simNode) setCut(servers ...int) {
	for i, l := range n.links {
		l.mu.Lock()
		l.cut = slices.Contains(servers, i)
		l.mu.Unlock()
	}
}

var errLost = cas.NoAnswer(context.Background(), "the simulation", nil)

// send takes a message to the server, has it work, and takes the answer back.
func (l *link) send(ctx context.Context, r *request, work func()) error {
	sim := l.sim
	l.mu.Lock()
	hold := l.hold
	l.mu.Unlock()
	held := time.Duration(0)
	if hold != nil {
		held = hold(r)
	}
	if r == nil { // the node is slow
		time.Sleep(held)
		held = 0
	}
	l.mu.Lock()
	run := l.run
	l.mu.Unlock()
	lose := 0.0
	if !sim.calm.Load() {
		lose = 0.02
	}
	if sim.random.chance(lose) {
		<-ctx.Done()
		return errLost
	}
	answered := make(chan bool, 1)
	delay := sim.delay() + held
	if sim.steady {
		delay += time.Duration(l.index()) * 10 * time.Microsecond // the order is always the same
	}
	repeat := !sim.calm.Load() && sim.random.chance(0.02)
	go func() {
		time.Sleep(delay)
		answered <- l.deliver(run, work)
		if repeat {
			time.Sleep(sim.random.between(0, 2*time.Second))
			l.deliver(run, work)
		}
	}()
	select {
	case ok := <-answered:
		if !ok || sim.random.chance(lose) {
			<-ctx.Done()
			return errLost
		}
	case <-ctx.Done():
		return errLost
	}
	if !sim.steady {
		time.Sleep(sim.random.between(20*time.Microsecond, time.Millisecond))
	}
	return nil
}

func (s *simulation) delay() time.Duration {
	if s.steady {
		return 100 * time.Microsecond
	}
	if !s.calm.Load() && s.random.chance(0.05) {
		return s.random.between(time.Millisecond, 4*time.Second)
	}
	return s.random.between(20*time.Microsecond, time.Millisecond)
}

// deliver has the process of a run do the work once it is not frozen.
func (l *link) deliver(run int, work func()) bool {
	for {
		l.mu.Lock()
		thaw := l.thaw
		if thaw == nil {
			defer l.mu.Unlock()
			if l.run != run && !l.rules.noIncarnation || l.cut || l.down {
				return false
			}
			work()
			return true
		}
		l.mu.Unlock()
		<-thaw
	}
}

func (l *link) call(ctx context.Context, r *request) (*reply, error) {
	replies := make(chan *reply, 2)
	err := l.send(ctx, r, func() { replies <- l.callLocked(r) })
	if err != nil {
		return nil, err
	}
	return <-replies, nil
}

// mark is the operation; that of the server is a field.
type markedLink struct{ *link }

func (l markedLink) mark(ctx context.Context, r *markRequest) (*markReply, error) {
	replies := make(chan *markReply, 2)
	err := l.send(ctx, nil, func() { replies <- l.markLocked(r) })
	if err != nil {
		return nil, err
	}
	return <-replies, nil
}

func (l *link) scan(ctx context.Context, r *scanRequest) (*scanReply, error) {
	replies := make(chan *scanReply, 2)
	err := l.send(ctx, nil, func() { replies <- l.scanLocked(r) })
	if err != nil {
		return nil, err
	}
	return <-replies, nil
}

// simNode is one process.
type simNode struct {
	sim     *simulation
	links   []*link
	backend *backend
	store   *cas.Store
}

// simTake is a call and its answer.
type simTake struct {
	node     int
	key      string
	short    bool // it has a claim on the short limit
	long     bool
	at       int64 // of the decision
	from, to time.Time
	allowed  bool
	code     stint.Code // of the error
	err      error
}

const simTimeout = 100 * time.Millisecond

func newSimulation(seed uint64, r rules, skew time.Duration) *simulation {
	s := &simulation{random: &simRandom{r: rand.New(rand.NewPCG(seed, 23))}, rules: r, begun: time.Now()}
	for i := range 3 {
		sv := &simServer{sim: s}
		sv.offset = s.random.between(0, skew+1)
		sv.memoryServer = newMemoryServer(fmt.Sprint("s", i), func() int64 { return time.Now().Add(sv.offset).UnixMicro() })
		sv.rules = &s.rules
		s.servers = append(s.servers, sv)
	}
	for range 3 {
		s.addNode()
	}
	return s
}

// addServer adds a server whose clock is right.
func (s *simulation) addServer() {
	sv := &simServer{sim: s}
	sv.memoryServer = newMemoryServer(fmt.Sprint("s", len(s.servers)), func() int64 { return time.Now().Add(sv.offset).UnixMicro() })
	sv.rules = &s.rules
	s.servers = append(s.servers, sv)
}

// replaces adds a server, and nodes that have it in the place of another one, and replaces that
// in the background until it is done.
func (s *simulation) replaces() {
	s.addServer()
	before, tool := s.nodes[0].backend.hash, s.addNodeOf(0, 1, 3).backend
	s.addNodeOf(0, 1, 3)
	go func() {
		for time.Sleep(s.random.between(time.Second, 30*time.Second)); ; time.Sleep(s.random.between(time.Millisecond, 10*time.Second)) {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			err := tool.replace(ctx, 2, before)
			cancel()
			if err == nil || s.calm.Load() {
				return
			}
		}
	}()
}

func (s *simulation) addNode() *simNode { return s.addNodeOf(0, 1, 2) }

// addNodeOf adds a node whose list of members is some servers.
func (s *simulation) addNodeOf(members ...int) *simNode {
	n := &simNode{sim: s}
	var servers []server
	for _, i := range members {
		l := &link{simServer: s.servers[i]}
		n.links = append(n.links, l)
		servers = append(servers, markedLink{l})
	}
	b := newBackend(servers, backendOptions{Timeout: simTimeout})
	b.ageless, b.bareRead = s.rules.noAge, s.rules.noFinish
	b.noRepairCheck, b.noFoundingCheck = s.rules.noRepairCheck, s.rules.noFoundingCheck
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

// take makes one call.
func (n *simNode) take(i int, key string, short, long bool) simTake {
	var claims []stint.Claim
	if short {
		c := stint.Claim{Key: key, Limit: simShort, Cost: 1}
		if n.sim.changed.Load() {
			c.Limit = simChanged
		}
		claims = append(claims, c)
	}
	if long {
		claims = append(claims, stint.Claim{Key: key, Limit: simLong, Cost: 1})
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*simTimeout)
	defer cancel()
	out := make([]stint.Decision, len(claims))
	h := simTake{node: i, key: key, short: short, long: long, from: time.Now()}
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
	}
	n.sim.mu.Lock()
	defer n.sim.mu.Unlock()
	n.sim.history = append(n.sim.history, h)
	return h
}

// run makes random calls and faults for a time, and then heals all.
func (s *simulation) run(lasts time.Duration, fault func()) {
	var all sync.WaitGroup
	end := time.Now().Add(lasts)
	for i, n := range s.nodes {
		all.Go(func() {
			for time.Now().Before(end) {
				pace := 200 * time.Millisecond
				if s.random.chance(0.05) {
					pace = 6 * time.Second
				}
				time.Sleep(s.random.between(time.Millisecond, pace))
				what := s.random.n(4)
				n.take(i, "k", what != 0, what == 0 || what == 3)
			}
		})
	}
	calmness := s.random.between(time.Second, 10*time.Second)
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

// fault is one random fault.
func (s *simulation) fault() {
	sv := s.servers[s.random.n(len(s.servers))]
	switch s.random.n(7) {
	case 0:
		sv.restart(false)
	case 1:
		sv.restart(true)
	case 2:
		sv.save()
	case 3:
		sv.freeze(s.random.between(10*time.Millisecond, 8*time.Second))
	case 4:
		s.changed.Store(!s.changed.Load())
	case 5:
		s.servers[0].runBack(s.random.between(2*time.Second, 10*time.Second))
	case 6:
		n := s.nodes[s.random.n(len(s.nodes))]
		l := n.links[s.random.n(len(n.links))]
		l.mu.Lock()
		l.cut = true
		l.mu.Unlock()
		time.AfterFunc(s.random.between(10*time.Millisecond, 5*time.Second), func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.cut = false
		})
	}
}

// repair has a random node repair a random server.
func (s *simulation) repair() {
	n := s.nodes[s.random.n(len(s.nodes))]
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	_ = n.backend.repair(ctx, n.backend.members[s.random.n(len(n.backend.members))])
}

func (s *simServer) index() int { return slices.Index(s.sim.servers, s) }

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

// told lists calls, and the offsets of the clocks.
func (s *simulation) told(calls []simTake) string {
	var text strings.Builder
	for _, sv := range s.servers {
		fmt.Fprintf(&text, " %v", sv.offset)
	}
	for _, h := range calls {
		fmt.Fprintf(&text, "\n\tnode %d at %v, from %v to %v", h.node, time.UnixMicro(h.at).Sub(s.begun), h.from.Sub(s.begun), h.to.Sub(s.begun))
	}
	return text.String()
}

// check returns what is wrong in the history.
func (s *simulation) check(skew time.Duration) error {
	var short []simTake
	least, most := 0, 0
	for _, h := range s.history {
		if h.short && h.allowed {
			short = append(short, h)
		}
		if h.long && h.allowed {
			least, most = least+1, most+1
		}
		if h.long && (h.code == stint.CodeTimeout || h.code == stint.CodeCanceled) {
			most++
		}
	}
	slices.SortFunc(short, func(a, b simTake) int { return int(a.at - b.at) })
	for i := range short {
		for j := i; j < len(short); j++ {
			took := time.Duration(short[j].at-short[i].at) * time.Microsecond
			if allowed := simBurst + float64(took+2*skew)/float64(time.Second); float64(j-i+1) > allowed+1e-6 {
				return fmt.Errorf("over-admission: %d of %.3f in %v from %v%s", j-i+1, allowed, took, time.UnixMicro(short[i].at).Sub(s.begun), s.told(short[i:j+1]))
			}
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*simTimeout)
	defer cancel()
	d, err := s.nodes[len(s.nodes)-1].store.Take(ctx, stint.Claim{Key: "k", Limit: simLong})
	if err != nil {
		return nil // no majority is old enough any more
	}
	if used := simQuota - int(d.Remaining); used < least || used > most {
		return fmt.Errorf("%d units are used: %d calls were allowed, and %d may have been charged", used, least, most)
	}
	return nil
}

// simulate makes one run, and returns what is wrong.
func simulate(t *testing.T, seed uint64, r rules, lasts time.Duration, script func(s *simulation) error) (s *simulation, wrong error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(12 * time.Hour)
		skew := 300 * time.Millisecond
		s = newSimulation(seed, r, skew)
		s.steady = script != nil
		s.found(t)
		if script != nil {
			s.calm.Store(true)
			wrong = script(s)
		} else {
			s.run(lasts, s.fault)
			s.heal()
			wrong = s.check(skew)
		}
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

// Whatever fails, nothing is admitted twice, nothing is charged twice, and a call that fails
// with an error other than a timeout charges nothing.
func TestSimulation(t *testing.T) {
	t.Parallel()
	runs := *simulations
	if runs == 0 {
		runs = 150
	}
	if testing.Short() {
		runs = min(runs, max(40, *simulations))
	}
	allowed, denied, failed := 0, 0, map[stint.Code]int{}
	for i := range runs {
		seed := *firstSeed + uint64(i)
		s, wrong := simulate(t, seed, rules{}, time.Minute, nil)
		if wrong != nil {
			t.Errorf("seed %d: %v", seed, wrong)
		}
		for _, h := range s.history {
			switch {
			case h.err != nil:
				failed[h.code]++
			case h.allowed:
				allowed++
			default:
				denied++
			}
		}
	}
	t.Logf("%d allowed, %d denied, failed %v", allowed, denied, failed)
}

// A server is replaced while processes of both lists make calls, and anything fails.
func TestSimulationOfAReplacement(t *testing.T) {
	t.Parallel()
	runs := *simulations
	if runs == 0 {
		runs = 100
	}
	if testing.Short() {
		runs = min(runs, max(30, *simulations))
	}
	allowed := 0
	for i := range runs {
		seed := *firstSeed + uint64(i)
		synctest.Test(t, func(t *testing.T) {
			time.Sleep(12 * time.Hour)
			skew := 300 * time.Millisecond
			s := newSimulation(seed, rules{}, skew)
			s.found(t)
			s.replaces()
			s.run(time.Minute, s.fault)
			s.heal()
			if err := s.check(skew); err != nil {
				t.Errorf("seed %d: %v", seed, err)
			}
			for _, h := range s.history {
				if h.allowed && h.node > 2 {
					allowed++
				}
			}
			closeAll(s)
		})
	}
	if allowed == 0 {
		t.Error("the new list admitted nothing")
	}
}

func longClaim(key string) stint.Claim { return stint.Claim{Key: key, Limit: simLong} }

// elapse lets virtual time pass.
func elapse(d time.Duration) { time.Sleep(d) }
