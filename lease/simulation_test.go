package lease_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/leasecheck"
	"github.com/stintdev/stint/lease"
)

// world is some nodes, a store and the network between them, in virtual time. All chance in it
// comes from one seed.
type world struct {
	t      *testing.T
	rng    *rand.Rand // random source of the network; guarded by mutex
	people *rand.Rand // random source of the callers and their times
	mode   stint.Consistency
	limits [2][2]stint.Limit // the limits before and after the change of rules

	mutex   sync.Mutex
	truth   stint.Store
	offset  time.Duration // offset of the store's clock
	changed bool          // the rules have changed
	traces  [2]leasecheck.Trace
	lost    [2]int64 // tokens in answers that never arrived
	crashed [2]int64 // for each limit, the number of nodes that crashed
	graves  []*machine
	surges  bool
	losses  float64 // share of calls and answers that are lost
	delay   time.Duration
}

// machine is one node: its leases, and its link to the store.
type machine struct {
	*world
	*lease.Store

	dead bool
}

// faults are the faults that can happen in a run.
type faults struct{ losses, crashes, restarts, jumps, changes, partitioned bool }

// isSteady reports whether the store keeps the laws by the clock of the trace,
// so that the bound can be judged by the admissions alone.
func (f faults) isSteady() bool { return !f.restarts && !f.jumps && !f.changes }

func TestNoRunPassesTheBound(t *testing.T) {
	t.Parallel()
	runs := uint64(400)
	if testing.Short() {
		runs = 20
	}
	var admitted, local int64
	for seed := range runs {
		f := faults{losses: seed&1 > 0, crashes: seed&2 > 0, restarts: seed%7 == 0, jumps: seed%5 == 0, changes: seed%3 == 0, partitioned: seed%11 > 6}
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, seed, f)
			local += w.run(f)
			w.judge(seed, f)
			admitted += int64(len(w.traces[0].Admissions))
		})
		if t.Failed() {
			t.Fatalf("seed %d, %+v", seed, f)
		}
	}
	t.Logf("%d runs: %d admitted, %d checks decided locally", runs, admitted, local)
	if local < admitted/10 {
		t.Error("hardly anything was decided locally, so nothing was tested")
	}
}

var algorithms = []stint.Algorithm{stint.TokenBucket, stint.GCRA, stint.FixedWindow, stint.SlidingWindowCounter, stint.SlidingWindowLog}

func newWorld(t *testing.T, seed uint64, f faults) *world {
	t.Helper()
	w := &world{t: t, rng: rand.New(rand.NewPCG(seed, 1)), people: rand.New(rand.NewPCG(seed, 2))}
	for i := range w.limits {
		spec := stint.Spec{Rule: "r", Name: []string{"first", "second"}[i], Algorithm: algorithms[w.rng.IntN(len(algorithms))]}
		spec.Window = time.Duration(200+w.rng.IntN(1800)) * time.Millisecond
		if spec.Algorithm == stint.SlidingWindowCounter {
			spec.Buckets, spec.Window = 4, spec.Window.Truncate(4*time.Millisecond)
		}
		for j := range w.limits[i] {
			spec.Limit = int64(1 + w.rng.IntN(1500))
			l, err := spec.Compile()
			if err != nil {
				t.Fatal(err)
			}
			w.limits[i][j] = l
		}
		w.traces[i] = leasecheck.Trace{Limit: w.limits[i][0], Lease: lease.DefaultTime, Stretch: lease.DefaultTime}
		if f.partitioned {
			w.traces[i].Lease, w.traces[i].Stretch = 3*time.Second, 0
		}
	}
	w.mode = stint.Leased
	if f.partitioned {
		w.mode = stint.Partitioned
	}
	w.surges = w.rng.IntN(3) == 0 || f.partitioned
	if f.losses {
		w.losses = 0.05
	}
	w.delay = time.Duration(1 + w.rng.IntN(int(20*time.Millisecond)))
	w.restart()
	return w
}

func (w *world) restart() {
	w.truth = stint.NewMemory(stint.MemoryOptions{MaxKeys: 100_000, Clock: func() time.Time { return time.Now().Add(w.offset) }})
}

// run simulates a second of traffic to some nodes, and then stops them.
func (w *world) run(f faults) (local int64) {
	nodes := make([]*machine, 1+w.people.IntN(4))
	for i := range nodes {
		nodes[i] = w.newMachine()
	}
	var pending sync.WaitGroup
	pace := time.Second / time.Duration(50+w.people.IntN(3000))
	for end := time.Now().Add(w.length()); time.Now().Before(end); {
		time.Sleep(time.Duration(w.people.ExpFloat64() * float64(pace)))
		i := w.people.IntN(len(nodes))
		cost, of, n := 1+int64(w.people.IntN(10)/9*w.people.IntN(20)), shapes[w.people.IntN(len(shapes))], nodes[i]
		pending.Go(func() { n.ask(cost, of) })
		w.strike(f, nodes, i)
		w.surge(nodes, &pending)
	}
	pending.Wait()
	for _, n := range slices.Concat(nodes, w.graves) { // dead nodes are connected to nobody
		local += int64(n.Stats().Local)
		if err := n.Close(); err != nil {
			w.t.Error(err)
		}
	}
	return local
}

// surge is a pause and then a crowd. Some runs have several. Tokens held during the pause are
// spent together with the units that refilled in it.
func (w *world) surge(nodes []*machine, pending *sync.WaitGroup) {
	if !w.surges || w.people.IntN(300) > 0 {
		return
	}
	time.Sleep(time.Duration(w.people.IntN(200)) * time.Millisecond)
	for range w.limits[0][0].Max() + 50 {
		n := nodes[w.people.IntN(len(nodes))]
		pending.Go(func() { n.ask(1, one) })
	}
}

// length is long enough that leases end several times.
func (w *world) length() time.Duration {
	if w.mode == stint.Partitioned {
		return 4 * time.Second
	}
	return time.Second
}

// strike causes a fault several times in a run.
func (w *world) strike(f faults, nodes []*machine, i int) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	switch chance := w.rng.IntN(2000); {
	case f.crashes && chance < 4:
		nodes[i].dead = true
		w.graves = append(w.graves, nodes[i])
		w.crashed[0]++
		w.crashed[1]++
		nodes[i] = w.newMachine()
	case f.restarts && chance < 6:
		w.restart()
	case f.jumps && chance < 10:
		w.offset += time.Duration(w.rng.IntN(400)-200) * time.Millisecond
	case f.changes && chance < 20:
		w.changed = !w.changed
	}
}

func (w *world) newMachine() *machine {
	m := &machine{world: w}
	s, err := lease.New(m.link(), lease.Options{})
	if err != nil {
		w.t.Fatal(err)
	}
	m.Store = s
	return m
}

func (w *world) judge(seed uint64, f faults) {
	for i := range w.traces {
		tr := &w.traces[i]
		if err := tr.Tokens(); err != nil {
			w.t.Errorf("seed %d: %s: %v", seed, tr.Limit, err)
		}
		if !f.isSteady() {
			continue
		}
		if err := tr.Bound(); err != nil {
			w.t.Errorf("seed %d: %s: %v", seed, tr.Limit, err)
		}
	}
	w.judgeStranded(seed)
}

// judgeStranded checks that every token of a surviving node was spent or refunded, and that a
// crashed node held no more than the leases of one lease time.
func (w *world) judgeStranded(seed uint64) {
	for i := range w.traces {
		tr, most := &w.traces[i], int64(0)
		for _, c := range tr.Charges {
			most += c.Cost
		}
		stranded := tr.Stranded() - w.lost[i]
		if w.crashed[i] == 0 && stranded != 0 || stranded < 0 || stranded > w.crashed[i]*most {
			w.t.Errorf("seed %d: %s: %d tokens stranded beside the %d that were lost; %d crashes", seed, tr.Limit, stranded, w.lost[i], w.crashed[i])
		}
	}
}

// link is the connection of a node to the store.
type link struct{ *machine }

func (m *machine) link() stint.Store { return link{m} }

func (l link) Take(ctx context.Context, c stint.Claim) (stint.Decision, error) {
	var out [1]stint.Decision
	err := l.TakeGroups(ctx, []stint.Group{{Claims: []stint.Claim{c}}}, out[:])
	return out[0], err
}

func (l link) TakeGroups(ctx context.Context, groups []stint.Group, out []stint.Decision) error {
	reaches, answers := l.dice()
	if !reaches {
		l.drop(groups)
		return errLost
	}
	if err := l.charge(ctx, groups, out); err != nil {
		return err
	}
	if answers = l.arrive(answers); !answers {
		l.lose(groups, out)
		clear(out)
		return errLost
	}
	return nil
}

var errLost = &stint.Error{Code: stint.CodeTimeout, Problem: "lost"}

// dice draws the fate of a call: whether the request reaches the store, and whether the answer
// arrives. It waits for the time of the request.
func (l link) dice() (reaches, answers bool) {
	l.mutex.Lock()
	wait := time.Duration(l.rng.Int64N(int64(l.delay)))
	reaches, answers = l.rng.Float64() >= l.losses, l.rng.Float64() >= l.losses
	l.mutex.Unlock()
	time.Sleep(wait)
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return reaches && !l.dead, answers
}

// charge decides the groups at the store, and records the charges and refunds.
func (l link) charge(ctx context.Context, groups []stint.Group, out []stint.Decision) error {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if err := l.truth.TakeGroups(ctx, groups, out); err != nil {
		return err
	}
	now := time.Now().UnixMicro()
	for c, d := range charged(groups, out) {
		tr := &l.traces[l.index(c)]
		switch {
		case c.Cost < 0:
			tr.Returns = append(tr.Returns, leasecheck.Return{At: c.At, Cost: -c.Cost})
		case c.Cost+d.Granted > 0:
			tr.Charges = append(tr.Charges, leasecheck.Charge{When: now, At: d.At, Cost: c.Cost + d.Granted})
		}
	}
	return nil
}

func (w *world) index(c *stint.Claim) int {
	if c.Limit.Name() == "first" {
		return 0
	}
	return 1
}

// charged iterates over the claims of the groups that were admitted.
func charged(groups []stint.Group, out []stint.Decision) func(yield func(*stint.Claim, *stint.Decision) bool) {
	return func(yield func(*stint.Claim, *stint.Decision) bool) {
		for _, g := range groups {
			_, binding := stint.Combine(g.Claims, out[:len(g.Claims)])
			for i := range g.Claims {
				if binding.Allowed && !yield(&g.Claims[i], &out[i]) {
					return
				}
			}
			out = out[len(g.Claims):]
		}
	}
}

// arrive is the way back.
func (l link) arrive(answers bool) bool {
	l.mutex.Lock()
	wait := time.Duration(l.rng.Int64N(int64(l.delay)))
	l.mutex.Unlock()
	time.Sleep(wait)
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return answers && !l.dead
}

// drop records the refunds that do not happen because the call does not arrive.
func (l link) drop(groups []stint.Group) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	for _, g := range groups {
		for i := range g.Claims {
			if c := &g.Claims[i]; c.Cost < 0 && !l.dead {
				l.lost[l.index(c)] -= c.Cost
			}
		}
	}
}

// lose records the tokens of an answer that does not arrive. Refunds of the call have taken
// effect.
func (l link) lose(groups []stint.Group, out []stint.Decision) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	for c, d := range charged(groups, out) {
		if c.Cost >= 0 {
			l.lost[l.index(c)] += c.Cost + d.Granted
		}
	}
}
