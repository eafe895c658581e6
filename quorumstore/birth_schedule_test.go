package quorumstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// The founding of a quorum and the births of its servers, while messages about marks are lost or late, and
// processes stand still after they have read a mark.

// marking has messages about marks held until they are released.
type marking struct {
	mu   sync.Mutex
	held chan struct{} // guarded by mu
}

func (k *marking) hold() chan struct{} {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.held == nil {
		k.held = make(chan struct{})
	}
	return k.held
}

func (k *marking) release() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.held != nil {
		close(k.held)
		k.held = nil
	}
}

// strays has some of the messages about marks of a node go astray.
func (n *simNode) strays(k *marking, p float64) {
	r := n.sim.random
	for _, l := range n.links {
		l.mu.Lock()
		l.fate = func(q *request) (there, back leg) {
			if q != nil || !r.chance(p) {
				return leg{}, leg{}
			}
			switch r.n(6) {
			case 0:
				there.lost = true
			case 1:
				back.lost = true
			case 2, 3:
				there.held = k.hold()
			default: // the process stands still
				back.held = k.hold()
			}
			return there, back
		}
		l.mu.Unlock()
	}
}

// simulateBirths makes one run, which begins with empty servers, and returns what is wrong. At most a
// minority of the servers is ever emptied or restarted, so that one that is not may vouch for the others.
func simulateBirths(t *testing.T, seed uint64, _ int) (s *simulation, wrong error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		servers := 3 + 2*int(seed%2)
		time.Sleep(12 * time.Hour)
		s = newSimulation(seed, servers, rules{}, 0)
		s.steady = true
		r := s.random
		forgetful := r.some(s.minority(), servers)
		var background sync.WaitGroup
		k := &marking{}
		if r.chance(0.5) {
			s.found(t)
		}
		for i := range 6 + r.n(7) {
			for _, n := range s.nodes {
				n.strays(k, [...]float64{0, 0.1, 0.3}[r.n(3)])
				if r.chance(0.5) {
					background.Go(func() {
						ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
						defer cancel()
						_ = n.backend.tend(ctx)
					})
				}
				elapse(r.between(0, 2*slowly))
			}
			if r.chance(0.4) {
				sv := s.servers[forgetful[r.n(len(forgetful))]]
				switch r.n(3) {
				case 0:
					sv.wipe()
				case 1:
					sv.restart(false)
				default:
					sv.save()
					sv.restart(true)
				}
				if r.chance(0.7) {
					k.release()
				}
			}
			elapse([...]time.Duration{0, time.Millisecond, 50 * time.Millisecond, time.Second, 2200 * time.Millisecond, 5 * time.Second, 9 * time.Second, 13 * time.Second}[r.n(8)])
			s.callsFrom(fmt.Sprint("k", i/3))
		}
		for _, n := range s.nodes {
			n.follow(nil)
		}
		elapse(time.Millisecond)
		k.release()
		background.Wait()
		healed := s.heal()
		if slices.ContainsFunc(s.servers, func(sv *simServer) bool { return !sv.whole() }) {
			healed = nil // a founding that was stopped for longer than a slack stays so
		}
		wrong = errors.Join(healed, s.check(0))
		closeAll(s)
	})
	return s, wrong
}

// callsFrom has each node make some calls of the short limits, each without another server.
func (s *simulation) callsFrom(key string) {
	for _, i := range s.random.some(1+s.random.n(len(s.nodes)), len(s.nodes)) {
		n := s.nodes[i]
		n.setCut(s.random.n(len(s.servers)))
		for range 1 + s.random.n(3) {
			h := n.call(&simTake{key: key, cost: int64(1 + s.random.n(simBurst)), short: true})
			if h.err != nil {
				break
			}
		}
		n.setCut()
	}
}

// However the marks of servers are lost or late, nothing is admitted twice.
func TestBirths(t *testing.T) { //nolint:tparallel // its subtests are those of simulateAll
	t.Parallel()
	simulateAll(t, 1000, simulateBirths)
}
