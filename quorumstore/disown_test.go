package quorumstore

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A node with a wrong list takes no mark of another quorum, although its other servers are behind.
func TestAForeignNodeTakesNoMark(t *testing.T) {
	t.Parallel()
	steadily(t, 3, 12*time.Hour, func(t *testing.T, s *simulation) {
		s.addServer()
		s.addServer()
		s.servers[3].offset, s.servers[4].offset = -5*time.Second, -5*time.Second
		wrong := s.addNodeOf(0, 3, 4)
		_ = wrong.backend.tend(context.Background())
		if s.servers[0].marked().run == disownedRun(s.servers[0].runID()) {
			t.Error("a node of another list took the mark of a member")
		}
	})
}

// While a server has no mark because its clock is off, checks must not make this process read the
// marks of all servers again and again.
func TestAServerWithoutAMarkCostsLittle(t *testing.T) {
	t.Parallel()
	steadily(t, 3, 12*time.Hour, func(t *testing.T, s *simulation) {
		n := s.nodes[0]
		s.servers[0].leap(25 * time.Hour)
		if err := n.backend.tend(context.Background()); err != nil {
			t.Fatal(err)
		}
		var marks, calls atomic.Int64
		n.holds(1, func(r *request) time.Duration {
			if r == nil {
				marks.Add(1)
			} else {
				calls.Add(1)
			}
			return 0
		})
		begun := time.Now()
		for range 1000 {
			if h := n.takeN("k", simBurst+1, true, false); h.err != nil { // denied by a read
				t.Fatalf("%+v", h)
			}
		}
		if most := 1 + int64(time.Since(begun)/(simTimeout/4)); marks.Load() > most {
			t.Errorf("%d marks were read in %v, with %d calls", marks.Load(), time.Since(begun), calls.Load())
		}
	})
}

// The machine of a node is suspended for ten seconds while the node reads the marks: two servers have
// answered, and the third one is asked after that. Its clock is right, so it must keep its mark.
// For a node whose clock stood still, the clocks of all servers leap.
func TestANodeThatWasSuspendedTakesNoMark(t *testing.T) {
	t.Parallel()
	steadily(t, 3, 12*time.Hour, func(t *testing.T, s *simulation) {
		n := s.nodes[0]
		elapse(5 * time.Second)
		if !n.take("k", false, true).allowed {
			t.Fatal("the first call")
		}
		s.servers[0].restart(false)
		if err := n.backend.tend(context.Background()); err != nil {
			t.Fatal(err)
		}
		n.holds(2, func(r *request) time.Duration {
			if r == nil {
				return 2 * time.Millisecond
			}
			return 0
		})
		time.AfterFunc(time.Millisecond, func() {
			for _, sv := range s.servers {
				sv.leap(10 * time.Second)
			}
		})
		_ = n.backend.tend(context.Background())
		n.holds(2, nil)
		if s.servers[2].marked().run == disownedRun(s.servers[2].runID()) {
			t.Error("the third server has lost its mark")
		}
		for range 60 {
			_ = n.backend.tend(context.Background())
			for _, m := range n.backend.members {
				_ = n.backend.repair(context.Background(), m)
			}
			elapse(time.Second)
		}
		for _, n := range s.nodes {
			if h := n.take("k", false, true); h.err != nil {
				t.Errorf("a minute later: %v", h.err)
			}
		}
	})
}

// The clock of a server is off for long, so it has no mark. Another one restarts. It must become a
// member, because all servers answer and a majority of clocks agree.
func TestAServerWithAWrongClockKeepsNoOtherFromBirth(t *testing.T) {
	t.Parallel()
	steadily(t, 3, 12*time.Hour, func(t *testing.T, s *simulation) {
		n := s.nodes[0]
		s.servers[0].leap(25 * time.Hour)
		if err := n.backend.tend(context.Background()); err != nil {
			t.Fatal(err)
		}
		s.servers[1].restart(false)
		for range 60 {
			_ = n.backend.tend(context.Background())
			elapse(time.Second)
		}
		if h := n.take("k", true, false); h.err != nil {
			t.Errorf("a minute later: %v", h.err)
		}
	})
}

// The clocks of two servers are ahead, and the first one is set right as soon as it has lost its mark. It must
// not be born by the time of before, or it would be young for that long.
func TestAClockThatIsSetRightIsNoTimeOfBirth(t *testing.T) {
	t.Parallel()
	const ahead = time.Hour
	steadily(t, 5, 12*time.Hour, func(t *testing.T, s *simulation) {
		n := s.nodes[0]
		s.servers[1].leap(ahead)
		s.servers[3].leap(ahead)
		first := n.backend.members[1]
		first.server = &pausing{first.server, func() { s.servers[1].leap(-ahead) }}
		for range 2 { // as the background work does each second
			_ = n.backend.tend(context.Background())
			elapse(time.Second)
		}
		if m := s.servers[1].marked(); m.run != s.servers[1].runID() || m.birth > time.Now().Add(n.backend.slack).UnixMicro() {
			t.Errorf("%+v at %d", m, time.Now().UnixMicro())
		}
	})
}

// A server without a mark of its process does not count, so the metric must not say that it is whole.
func TestAServerWithoutAMarkIsNotWhole(t *testing.T) {
	t.Parallel()
	steadily(t, 3, 12*time.Hour, func(t *testing.T, s *simulation) {
		n := s.nodes[0]
		s.servers[0].leap(25 * time.Hour)
		for range 2 { // as the background work does each second
			if err := n.backend.tend(context.Background()); err != nil {
				t.Fatal(err)
			}
		}
		if all := n.backend.serverStats(); s.servers[0].marked().run != disownedRun(s.servers[0].runID()) || all[0].Whole {
			t.Errorf("%+v", all)
		}
	})
}

// The clock of a server leaps ahead while a repair asks it for its keys, and back after that. The answer
// tells it, so the repair must not count.
func TestARepairSeesAClockThatLeapsDuringAScan(t *testing.T) {
	t.Parallel()
	steadily(t, 3, 12*time.Hour, func(t *testing.T, s *simulation) {
		n := s.nodes[0]
		const young, has, lacks = 0, 1, 2
		n.setCut(lacks)
		for range 3 {
			if !n.take("k", false, true).allowed {
				t.Fatal("the first calls")
			}
		}
		n.setCut()
		s.servers[young].restart(false)
		if err := n.backend.tend(context.Background()); err != nil {
			t.Fatal(err)
		}
		elapse(5 * time.Second)
		calls := 0
		n.holds(has, func(r *request) time.Duration {
			if r == nil {
				switch calls++; calls {
				case 2: // the scan, after the mark
					s.servers[has].leap(25 * time.Hour)
				case 3: // the mark again
					s.servers[has].leap(-25 * time.Hour)
				}
			}
			return 0
		})
		if err := n.backend.repair(context.Background(), n.backend.members[young]); err == nil {
			t.Error("the repair counts")
		}
		n.holds(has, nil)
		late := s.nodes[2]
		late.setCut(has)
		if h := late.take("k", false, true); h.allowed && h.used <= 3 {
			t.Errorf("after 3 units were allowed: %+v", h)
		}
	})
}

// Two nodes start at the same time on new servers, one of which has a clock that is ahead. Once it is
// right, the quorum must be founded.
func TestAFoundingWhileAClockIsAhead(t *testing.T) {
	t.Parallel()
	for delay := time.Duration(0); delay < 900*time.Microsecond; delay += 50 * time.Microsecond {
		synctest.Test(t, func(t *testing.T) {
			time.Sleep(12 * time.Hour)
			s := newSimulation(1, 3, rules{}, 0)
			s.steady = true
			s.calm.Store(true)
			s.servers[0].leap(10 * time.Second)
			var all sync.WaitGroup
			for i, n := range s.nodes[:2] {
				all.Go(func() {
					elapse(time.Duration(i) * delay)
					_ = n.backend.tend(context.Background())
				})
			}
			all.Wait()
			s.servers[0].leap(-10 * time.Second)
			for range 20 {
				for _, n := range s.nodes[:2] {
					_ = n.backend.tend(context.Background())
					for _, m := range n.backend.members {
						_ = n.backend.repair(context.Background(), m)
					}
				}
				elapse(time.Second)
			}
			for _, n := range s.nodes[:2] {
				if h := n.take("k", false, true); h.err != nil {
					t.Errorf("%v: %v", delay, h.err)
					break
				}
			}
			closeAll(s)
		})
	}
}

// A node was cut off from all servers for twelve hours, in which its own clock gained 1.2 s. That is
// no reason to take a mark.
func TestAClockThatDriftsTakesNoMark(t *testing.T) {
	t.Parallel()
	_, wrong := simulate(t, rules{}, func(s *simulation) error {
		n := s.nodes[0]
		n.take("k", false, true)
		n.setCut(0, 1, 2)
		elapse(12 * time.Hour)
		n.setCut()
		for _, m := range n.backend.members { // as if the clock of the process had gained so much
			m.mu.received = m.mu.received.Add(-1200 * time.Millisecond)
		}
		if err := n.backend.tend(context.Background()); err != nil {
			return err
		}
		for i, sv := range s.servers {
			if !sv.whole() {
				t.Errorf("server %d has the mark %+v", i, sv.mark)
			}
		}
		return nil
	})
	if wrong != nil {
		t.Error(wrong)
	}
}

// The process that founded a quorum ended before it said of any server that it knows all. Once they are
// old enough for a limit, one whose clock ran back loses its mark as any other.
func TestAHalfFoundedQuorumTakesMarks(t *testing.T) {
	t.Parallel()
	_, wrong := simulate(t, rules{}, func(s *simulation) error {
		for _, sv := range s.servers {
			sv.mark.ever = false
		}
		n := s.addNode()
		elapse(time.Hour)
		const a, b, c = 0, 1, 2
		n.setCut(c)
		if h := n.takeN("k", simBurst, true, false); !h.allowed {
			return fmt.Errorf("%+v", h)
		}
		for _, leap := range []time.Duration{25 * time.Hour, -25 * time.Hour} {
			s.servers[a].leap(leap)
			n.used("k")
		}
		elapse(simTimeout)
		late := s.addNode()
		late.setCut(b)
		if h := late.takeN("k", simBurst, true, false); h.allowed {
			t.Errorf("after all units were allowed: %+v", h)
		}
		return nil
	})
	if wrong != nil {
		t.Error(wrong)
	}
}
