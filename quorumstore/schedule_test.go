package quorumstore

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A schedule is a run of few steps, most of which matter: calls whose messages reach some servers and
// not others, servers that forget, and times after which rows or states have ended. The other runs of the
// simulation rarely meet such a sequence.

// plan says what becomes of the messages of a node while it makes one call. A call has phases: in each
// it reads and prepares, and then it has servers accept.
type plan struct {
	mu       sync.Mutex
	phases   []phasePlan
	accepted time.Time // guarded by mu: when an accept of the phase was sent; zero: none was
}

// phasePlan has what becomes of the messages to each server.
type phasePlan struct{ reads, accepts []legs }

// legs are those of a request and of its answer.
type legs struct{ there, back leg }

// of returns what becomes of a request. After the last phase nothing fails.
func (p *plan) of(server int, r *request) (there, back leg) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.phases) == 0 || r == nil || len(r.ops) == 0 {
		return leg{}, leg{}
	}
	if r.ops[0].verb == verbAccept {
		p.accepted = time.Now()
		l := p.phases[0].accepts[server]
		return l.there, l.back
	}
	if !p.accepted.IsZero() && time.Now().After(p.accepted) {
		p.phases, p.accepted = p.phases[1:], time.Time{}
		if len(p.phases) == 0 {
			return leg{}, leg{}
		}
	}
	l := p.phases[0].reads[server]
	return l.there, l.back
}

// cast are the servers that a scene is about.
type cast struct {
	alone int // may be the only one that gets a write
	young int // may have restarted
}

// newPlan draws a plan.
func (c cast) newPlan(r *simRandom, servers int) *plan {
	p := &plan{}
	for range r.n(4) {
		p.phases = append(p.phases, phasePlan{c.drawReads(r, servers), c.drawAccepts(r, servers)})
	}
	return p
}

// slowly is longer than a node waits for a slower server once a majority has answered.
const slowly = 3 * time.Millisecond

// drawReads draws which majority is read first. The other servers are slower, or are not reached.
func (c cast) drawReads(r *simRandom, servers int) []legs {
	all := make([]legs, servers)
	if r.chance(0.3) {
		return all
	}
	var last []int
	if r.chance(0.5) {
		last = append(last, c.alone)
	}
	if r.chance(0.3) {
		last = append(last, c.young)
	}
	for _, i := range r.some(servers, servers) {
		if i != c.alone && i != c.young {
			last = append(last, i)
		}
	}
	for _, i := range last[:min((servers-1)/2, len(last))] {
		all[i].there.takes = slowly
		all[i].there.lost = r.chance(0.3)
	}
	return all
}

// drawAccepts draws which servers accept a write, and whether the node learns of it.
func (c cast) drawAccepts(r *simRandom, servers int) []legs {
	all := make([]legs, servers)
	some := func(gets func(i int) bool) {
		for i := range all {
			switch {
			case gets(i):
			case r.chance(0.3):
				all[i].there.takes = r.between(simTimeout, 10*time.Second)
			default:
				all[i].there.lost = true
			}
		}
	}
	switch r.n(8) {
	case 0, 1, 2:
		some(func(i int) bool { return i == c.alone })
	case 3:
		some(func(i int) bool { return i == c.young })
	case 4:
		some(func(i int) bool { return i != c.alone })
	case 5:
		some(func(int) bool { return r.chance(0.4) })
	}
	if r.chance(0.1) {
		for i := range all {
			all[i].back.lost = r.chance(0.7)
		}
	}
	return all
}

// follow has the messages of a node go by a plan until the plan is taken away.
func (n *simNode) follow(p *plan) {
	for i, l := range n.links {
		l.mu.Lock()
		if p == nil {
			l.fate = nil
		} else {
			l.fate = func(r *request) (there, back leg) { return p.of(i, r) }
		}
		l.mu.Unlock()
	}
}

// takeBy makes a random call by a plan.
func (s *simulation) takeBy(n *simNode, key string, p *plan) {
	r := s.random
	h := &simTake{key: key, cost: 1}
	switch r.n(6) {
	case 0:
		h.short = true
	case 1:
		h.long = true
	case 2:
		h.mid = true
	case 3:
		h.short, h.mid = true, true
	default:
		h.short, h.long = true, true
	}
	if !h.long && r.chance(0.5) {
		h.cost = int64(1 + r.n(simBurst))
	}
	if r.chance(0.3) {
		h.once = fmt.Sprint(key, " ", r.n(1<<30))
	}
	n.follow(p)
	n.call(h)
	n.follow(nil)
}

// repeat makes some of the calls on a key once more that may be repeated.
func (s *simulation) repeat(key string) {
	for _, h := range s.of(key) {
		if h.once != "" && time.Since(h.to) < 40*time.Second && s.random.chance(0.5) {
			s.nodes[s.random.n(len(s.nodes))].call(&simTake{key: key, cost: h.cost, short: h.short, mid: h.mid, long: h.long, once: h.once})
		}
	}
}

// scene makes calls on one key. Before it, and in it, servers may forget.
func (s *simulation) scene(key string) {
	r, n := s.random, len(s.servers)
	c := cast{alone: r.n(n), young: r.n(n)}
	if r.chance(0.6) {
		s.restart(s.servers[c.young], false)
		s.tend()
		elapse([...]time.Duration{0, 5 * time.Second, 13 * time.Second, 14 * time.Second}[r.n(4)])
	}
	if r.chance(0.5) {
		for _, n := range s.nodes { // each knows the time, so that it need not read
			n.takeN("other", 1, true, false)
		}
	}
	for range r.n(3) {
		_ = s.nodes[r.n(len(s.nodes))].call(&simTake{key: key, cost: 1, short: true, long: r.chance(0.5), mid: r.chance(0.3)})
	}
	for range 1 + r.n(3) {
		if s.varied.Load() && r.chance(0.5) {
			s.mixed.Store(r.chance(0.5))
			s.changed.Store(r.chance(0.5))
		}
		s.takeTogether(c, key)
		switch sv := s.servers[r.n(n)]; r.n(11) {
		case 0:
			s.restart(s.servers[c.alone], false)
		case 1:
			sv.save()
		case 2:
			s.restart(sv, true)
		case 3:
			s.tend()
		case 4:
			s.repair()
		case 5, 6, 7:
			elapse([...]time.Duration{4 * time.Second, 6 * time.Second, 9 * time.Second, 13 * time.Second, 30 * time.Second}[r.n(5)])
		case 8:
			s.anyNode().restart()
		case 9:
			s.restart(s.servers[c.alone], false)
			s.tend()
			s.repeat(key)
		}
	}
	s.repeat(key)
}

// takeTogether has one to three nodes make calls at nearly the same time.
func (s *simulation) takeTogether(c cast, key string) {
	r := s.random
	var all sync.WaitGroup
	for _, i := range r.some(1+r.n(len(s.nodes)), len(s.nodes)) {
		p := c.newPlan(r, len(s.servers))
		all.Go(func() { s.takeBy(s.nodes[i], key, p) })
		elapse(r.between(0, 2*slowly))
	}
	all.Wait()
}

// simulateSchedule makes one run of random scenes, and returns what is wrong.
func simulateSchedule(t *testing.T, seed uint64, _ int) (s *simulation, wrong error) {
	t.Helper()
	servers := 3 + 2*int(seed%2)
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(12 * time.Hour)
		s = newSimulation(seed, servers, rules{keepsRows: seed%3 > 0}, 0)
		s.steady, s.split = true, seed%4 >= 2
		s.found(t)
		s.calm.Store(true)
		s.varied.Store(seed%8 >= 6)
		for i := range 5 {
			s.scene(fmt.Sprint("k", i))
		}
		wrong = errors.Join(s.heal(), s.check(0))
		closeAll(s)
	})
	return s, wrong
}

// Whatever messages of a few calls are lost or late, and whichever servers forget between them, nothing
// is admitted twice, and nothing that was denied is charged.
func TestSchedules(t *testing.T) { //nolint:tparallel // its subtests are those of simulateAll
	t.Parallel()
	simulateAll(t, 2000, simulateSchedule)
}
