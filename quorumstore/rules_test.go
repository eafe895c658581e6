package quorumstore

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"
)

// schedules break the store if one of its rules is off. Each returns what is wrong.
var schedules = map[string]struct {
	off     rules
	script  func(s *simulation) error
	commits bool // the commits alone show it
}{
	"floor":          {rules{noFloor: true}, keptPromiseOutlivesRows, true},
	"incarnation":    {rules{noIncarnation: true}, acceptToAnotherIncarnation, true},
	"age":            {rules{noAge: true}, restartWithoutRows, true},
	"finish":         {rules{noFinish: true}, writeThatOneServerHas, false},
	"run":            {rules{noRun: true}, restartFromAnOldDisk, true},
	"repair check":   {rules{noRepairCheck: true}, restartDuringRepair, true},
	"founding check": {rules{noFoundingCheck: true}, restartDuringFounding, true},
	"last mark":      {rules{noMarkLast: true}, markOutlivesWipe, true},
}

func TestEachRuleIsNeeded(t *testing.T) {
	t.Parallel()
	for name, s := range schedules {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if run, wrong := simulate(t, rules{}, s.script); wrong != nil || run.checkCommits() != nil {
				t.Errorf("with all rules: %v, %v\n%s", wrong, run.checkCommits(), run.trace)
			}
			run, wrong := simulate(t, s.off, s.script)
			if wrong == nil || s.commits && run.checkCommits() == nil {
				t.Errorf("without the rule: %v, %v\n%s", wrong, run.checkCommits(), run.trace)
			}
		})
	}
}

// pairs are schedules that break the store if two of its rules are off, and not if one is. The last
// time of an accept and the wait of a repair have no schedule that breaks the store without them
// alone, because the floor covers them. What settles a write is kept until the states of the write have
// ended, which covers both the floor and the last time of that write.
var pairs = map[string]struct {
	off, first, second rules
	neither            rules // of a run with both
	script             func(s *simulation) error
}{
	"floor and last time": {
		rules{noFloor: true, noLast: true, noOutliving: true}, rules{noFloor: true, noOutliving: true},
		rules{noLast: true, noOutliving: true}, rules{noOutliving: true}, acceptOutlivesRows,
	},
	"floor and wait of repair": {
		rules{noFloor: true, noRepairWait: true}, rules{noFloor: true},
		rules{noRepairWait: true}, rules{}, acceptDuringRepair,
	},
}

func TestEachPairOfRulesIsNeeded(t *testing.T) {
	t.Parallel()
	for name, p := range pairs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, off := range []rules{p.neither, p.first, p.second} {
				if run, wrong := simulate(t, off, p.script); wrong != nil || run.checkCommits() != nil {
					t.Errorf("with %+v: %v, %v\n%s", off, wrong, run.checkCommits(), run.trace)
				}
			}
			run, wrong := simulate(t, p.off, p.script)
			if wrong == nil || run.checkCommits() == nil {
				t.Errorf("with %+v: %v, %v\n%s", p.off, wrong, run.checkCommits(), run.trace)
			}
		})
	}
}

// admits takes some units of one key at once, and returns how many were allowed.
func (n *simNode) admits(times int, short bool) (allowed int) {
	for range times {
		if n.take("k", short, !short).allowed {
			allowed++
		}
	}
	return allowed
}

func atMost(most, got int) error {
	if got > most {
		return fmt.Errorf("over-admission: %d units of %d", got, most)
	}
	return nil
}

// Two nodes keep a promise for a key whose row expires. Each of them writes by its promise, and
// the second write does not see the first.
func keptPromiseOutlivesRows(s *simulation) error {
	for _, n := range s.nodes[:2] {
		n.admits(3, true)
		elapse(20 * time.Second)
	}
	got := 0
	for _, n := range s.nodes[:2] {
		n.take("other", false, true) // now it knows the time, and need not read
		got += n.admits(simBurst, true)
	}
	return atMost(simBurst+1, got)
}

// A server restarts from a disk that lacks the last writes and a promise, and is marked again. An
// accept by an older promise reaches it.
func acceptToAnotherIncarnation(s *simulation) error {
	a, b, c := 0, 1, 2
	n, other, late := s.nodes[0], s.nodes[1], s.nodes[2]
	n.admits(3, true)
	elapse(4 * time.Second)
	s.servers[a].save()
	other.setCut(b)
	got := other.admits(simBurst, true)
	s.servers[a].restart(true)
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = late.backend.tend(ctx)
	n.setCut(a)
	n.take("other", true, false) // now it knows the time, and need not read
	n.setCut(c)
	got += n.admits(simBurst, true)
	return atMost(simBurst, got)
}

// A server restarts empty, and is read with one that lacks the last writes.
func restartWithoutRows(s *simulation) error {
	a, b, c := 0, 1, 2
	s.nodes[0].setCut(c)
	got := s.nodes[0].admits(simBurst, true)
	s.servers[a].restart(false)
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = s.nodes[2].backend.tend(ctx)
	s.nodes[1].setCut(b)
	got += s.nodes[1].admits(simBurst, true)
	return atMost(simBurst+1, got)
}

// A write reaches one server of a majority, which restarts after the writer has read it.
func writeThatOneServerHas(s *simulation) error {
	a, b, c := 0, 1, 2
	n, other := s.nodes[0], s.nodes[1]
	n.take("other", false, true)
	n.setCut(c)
	held := false
	n.holds(b, func(r *request) time.Duration {
		if held || r == nil || r.ops[0].verb != verbAccept {
			return 0
		}
		held = true
		return time.Second
	})
	allowed := n.admits(1, false)
	s.servers[a].restart(false)
	if used := other.used("k"); used >= 0 && used < allowed {
		return fmt.Errorf("%d units were allowed, and %d are used", allowed, used)
	}
	return nil
}

// A server restarts from a disk that lacks the last writes.
func restartFromAnOldDisk(s *simulation) error {
	a, b, c := 0, 1, 2
	s.servers[a].save()
	s.nodes[0].setCut(c)
	got := s.nodes[0].admits(simBurst, true)
	s.servers[a].restart(true)
	s.nodes[1].setCut(b)
	got += s.nodes[1].admits(simBurst, true)
	return atMost(simBurst+1, got)
}

// used returns how many units of the long limit are used, or -1 if no majority knows.
func (n *simNode) used(key string) int {
	ctx, cancel := context.WithTimeout(context.Background(), 5*simTimeout)
	defer cancel()
	d, err := n.store.Take(ctx, longClaim(key))
	if err != nil {
		return -1
	}
	return simQuota - int(d.Remaining)
}

// A server restarts once more after it was repaired, before its mark says so.
func restartDuringRepair(s *simulation) error {
	a, b, c := 0, 1, 2
	repairer, n, late := s.nodes[0], s.nodes[1], s.nodes[2]
	late.used("other")
	n.used("other")
	s.servers[a].restart(false)
	repairer.used("other")
	elapse(8 * time.Second) // it is old enough for the short limit
	var got, marks atomic.Int64
	repairer.holds(a, func(r *request) time.Duration {
		if r != nil {
			return 0
		}
		if marks.Add(1) != 2 {
			return 0
		}
		// The walk is done, and the mark is not yet set.
		n.setCut(b)
		go func() {
			got.Add(int64(n.admits(simBurst, true)))
			s.servers[a].restart(false)
			ctx, cancel := context.WithTimeout(context.Background(), simTimeout)
			defer cancel()
			_ = late.backend.tend(ctx)
		}()
		return 400 * time.Millisecond
	})
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = repairer.backend.repair(ctx, repairer.backend.members[a])
	elapse(500 * time.Millisecond)
	late.setCut(c)
	got.Add(int64(late.admits(simBurst, true)))
	return atMost(simBurst+1, int(got.Load()))
}

// A server restarts while a new quorum is founded, before it is said to know all.
func restartDuringFounding(s *simulation) error {
	a, b, c := 0, 1, 2
	for _, sv := range s.servers {
		sv.restart(false)
	}
	founder, n, late := s.addNode(), s.nodes[1], s.nodes[2]
	var got, marks atomic.Int64
	founder.holds(c, func(r *request) time.Duration {
		if r != nil || marks.Add(1) != 3 {
			return 0
		}
		// All servers have a mark, and all but this one are said to know all.
		n.holdAccepts(a, time.Second)
		go func() {
			got.Add(int64(n.admits(simBurst, true)))
			s.servers[c].restart(false)
			ctx, cancel := context.WithTimeout(context.Background(), simTimeout)
			defer cancel()
			_ = n.backend.tend(ctx)
		}()
		return 90 * time.Millisecond
	})
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = founder.backend.tend(ctx)
	elapse(300 * time.Millisecond)
	late.setCut(b)
	got.Add(int64(late.admits(simBurst, true)))
	return atMost(simBurst+1, int(got.Load()))
}

// A process has read that a server lost its mark, and is slow to set another one. The server is
// marked by another process meanwhile, used, and emptied once more.
func markOutlivesWipe(s *simulation) error {
	a, b, c := 0, 1, 2
	n, other, slow := s.nodes[0], s.nodes[1], s.nodes[2]
	n.used("other") // now it knows that the quorum was founded
	s.servers[c].wipe()
	marks := 0
	slow.holds(c, func(r *request) time.Duration {
		if r != nil {
			return 0
		}
		if marks++; marks != 2 {
			return 0
		}
		return 30 * time.Second
	})
	go func() { _ = slow.backend.tend(context.Background()) }()
	elapse(time.Second)
	if err := n.backend.tend(context.Background()); err != nil {
		return err
	}
	elapse(28 * time.Second) // the server is old enough for the short limit
	n.setCut(b)
	got := n.admits(simBurst, true)
	s.servers[c].wipe()
	elapse(1500 * time.Millisecond)
	other.setCut(a)
	got += other.admits(simBurst, true)
	return atMost(simBurst+2, got)
}

// holdAccepts delays the accepts of a node to a server.
func (n *simNode) holdAccepts(server int, d time.Duration) {
	n.holds(server, func(r *request) time.Duration {
		if r != nil && r.ops[0].verb == verbAccept {
			return d
		}
		return 0
	})
}

// The accepts of a call are held for so long that the rows of later writes have expired when
// they arrive. The call has been denied by then, because another process used all units.
func acceptOutlivesRows(s *simulation) error {
	n, other, late := s.nodes[0], s.nodes[1], s.nodes[2]
	for i := range s.servers {
		var held atomic.Bool // the accept, and not that of the read that finds out what became of it
		n.holds(i, func(r *request) time.Duration {
			if r == nil || r.ops[0].verb != verbAccept || !held.CompareAndSwap(false, true) {
				return 0
			}
			return 30 * time.Second
		})
	}
	s.changed.Store(true)
	denied := make(chan *simTake)
	go func() { denied <- n.take("k", true, false) }()
	elapse(10 * time.Millisecond)
	s.changed.Store(false)
	other.admits(simBurst, true)
	switch h := <-denied; {
	case h.err != nil:
		return h.err
	case h.allowed:
		return errors.New("the call was not denied")
	}
	elapse(40 * time.Second)
	s.changed.Store(true)
	if got := late.admits(simBurst, true); got != simBurst {
		return fmt.Errorf("%d units of %d are left: a call that was denied is charged", got, simBurst)
	}
	return nil
}

// A write by a kept promise reaches a server, which restarts and is repaired before the write
// reaches the second one. The rows of before have expired, so the repair does not find the key.
func acceptDuringRepair(s *simulation) error {
	a, b, c := 0, 1, 2
	n, other, late := s.nodes[0], s.nodes[1], s.nodes[2]
	n.admits(3, true)
	elapse(20 * time.Second)
	n.take("other", false, true) // now it knows the time, and need not read
	n.setCut(c)
	held := false
	n.holds(b, func(r *request) time.Duration {
		if held || r == nil || r.ops[0].verb != verbAccept {
			return 0
		}
		held = true
		go func() {
			elapse(time.Millisecond)
			s.servers[a].restart(false)
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			_ = late.backend.tend(ctx)
			_ = late.backend.repair(ctx, late.backend.members[a])
		}()
		return 50 * time.Millisecond
	})
	got := 0
	if n.takeN("k", simBurst, true, false).allowed {
		got = simBurst
	}
	other.setCut(b)
	got += other.admits(simBurst, true)
	return atMost(simBurst+1, got)
}
