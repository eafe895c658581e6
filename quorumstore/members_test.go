package quorumstore

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/cas"
)

// A server that restarts empty is a member again by itself, and knows all charges once it was
// repaired.
func TestMaintainRepairsAServer(t *testing.T) {
	t.Parallel()
	_, wrong := simulate(t, rules{}, func(s *simulation) error {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		n := s.nodes[0]
		go n.backend.maintain(ctx)
		n.admits(3, false)
		for i, sv := range s.servers { // one after the other, so nothing is left of the first charges
			sv.restart(false)
			time.Sleep(10 * time.Second)
			if used := n.used("k"); used != 3 {
				t.Errorf("after restart %d, %d units are used", i, used)
			}
		}
		s.nodes[1].setCut(1)
		if used := s.nodes[1].used("k"); used != 3 {
			t.Errorf("without the second server, %d units are used", used)
		}
		return nil
	})
	if wrong != nil {
		t.Error(wrong)
	}
}

// A server is replaced by an empty one, which learns all charges. Processes with the list of
// before are refused.
func TestAServerIsReplaced(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(12 * time.Hour) // into the day of the long limit
		servers := newMemoryServers(4)
		store := func(b *backend) *simNode {
			n := &simNode{sim: &simulation{trace: &trace{}}, backend: b}
			n.store = cas.New(b, cas.Options{Name: "quorumstore", Heartbeat: -1})
			t.Cleanup(func() { _ = n.store.Close() })
			return n
		}
		before := store(newBackend(servers[:3], backendOptions{}))
		if got := before.admits(5, false); got != 5 {
			t.Fatal(got)
		}
		after := store(newBackend(servers[1:], backendOptions{}))
		if err := after.backend.replace(t.Context(), 2, before.backend.hash); err != nil {
			t.Fatal(err)
		}
		if used := before.used("k"); used != -1 {
			t.Errorf("the list of before still reads %d", used)
		}
		if err := after.backend.tend(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		if err := after.backend.repair(t.Context(), after.backend.members[2]); err != nil {
			t.Fatal(err)
		}
		if used := after.used("k"); used != 5 {
			t.Errorf("%d units are used", used)
		}
		if err := after.backend.replace(t.Context(), 2, 1); err != nil {
			t.Errorf("to replace it again: %v", err)
		}
	})
}

// Only a new quorum can be founded.
func TestInitializeSaysWhyItCannot(t *testing.T) {
	t.Parallel()
	servers := newMemoryServers(3)
	b := newBackend(servers, backendOptions{})
	if err := b.initialize(t.Context()); err != nil {
		t.Fatal(err)
	}
	other := newBackend(servers, backendOptions{})
	if err := other.initialize(t.Context()); stint.CodeOf(err) != stint.CodeInvalid || !strings.Contains(err.Error(), "s1 is a member already") {
		t.Error(err)
	}
}

// The classes of lives and of ages.
func TestClasses(t *testing.T) {
	t.Parallel()
	for _, step := range []struct {
		life time.Duration
		want int
	}{{0, 0}, {time.Second, 0}, {time.Second + 1, 1}, {4 * time.Second, 2}, {5 * time.Second, 3}, {24 * time.Hour, 17}} {
		if got := classOfLife(step.life); got != step.want {
			t.Errorf("a life of %v is of class %d, not %d", step.life, got, step.want)
		}
	}
	for _, step := range []struct {
		age  time.Duration
		want int
	}{{0, tooYoung}, {3*time.Second - 1000, tooYoung}, {3 * time.Second, 0}, {4 * time.Second, 1}, {6 * time.Second, 2}, {10*time.Second - 1000, 2}} {
		a := about{time: 1e15, birth: 1e15 - step.age.Microseconds()}
		if got := a.oldEnough(2 * time.Second); got != step.want {
			t.Errorf("an age of %v is of class %d, not %d", step.age, got, step.want)
		}
	}
}

// A clock that runs back is noticed by answers that come late, too.
func TestAClockThatRunsBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := &member{}
		begin := time.Now()
		told := func(behind time.Duration) about {
			return about{incarnation: 7, time: time.Now().Add(-behind).UnixMicro()}
		}
		m.learn(told(0), begin)
		time.Sleep(3 * time.Second)
		late := told(0)
		time.Sleep(time.Millisecond)
		m.learn(told(0), time.Now())
		m.learn(late, begin)
		if !m.trusts(7) {
			t.Error("an answer that came late is taken for a clock that ran back")
		}
		sent := time.Now().Add(-time.Millisecond)
		m.learn(told(2*time.Second), sent)
		if m.trusts(7) {
			t.Error("a clock that ran back is trusted")
		}
	})
}

// While a server is replaced, and after, no majority of the old list admits what one of the new
// list has admitted too, although the command fails halfway, a survivor restarts, and the
// server that left is still there.
func TestListsDoNotAdmitTwice(t *testing.T) {
	t.Parallel()
	for _, lost := range []int{0, 1} { // the survivor that does not get the new list at first
		synctest.Test(t, func(t *testing.T) {
			time.Sleep(12 * time.Hour)
			s := newSimulation(1, 3, rules{}, 0)
			s.steady = true
			s.calm.Store(true)
			s.found(t)
			before := s.nodes[0]
			s.addServer()
			after, tool := s.addNodeOf(0, 1, 3), s.addNodeOf(0, 1, 3)
			defer closeAll(s)
			got := before.admits(1, true)
			tool.setCut(lost)
			if err := tool.backend.replace(t.Context(), 2, before.backend.hash); err == nil {
				t.Error("a server was replaced although one did not answer")
			}
			tool.setCut()
			tool.holds(lost, func(r *request) time.Duration { // it is read, and its mark is not set
				if r == nil {
					tool.setCut(lost)
				}
				return 0
			})
			_ = tool.backend.replace(t.Context(), 2, before.backend.hash)
			tool.setCut()
			tool.holds(lost, nil)
			admit := func() {
				time.Sleep(20 * time.Second) // the state is fresh, and a server that is born now is old enough
				_ = after.backend.tend(t.Context())
				_ = before.backend.tend(t.Context())
				time.Sleep(20 * time.Second)
				if got := before.admits(simBurst, true) + after.admits(simBurst, true); got > simBurst {
					t.Errorf("both lists admitted %d", got)
				}
			}
			admit()
			if err := tool.backend.replace(t.Context(), 2, before.backend.hash); err != nil {
				t.Fatal(err)
			}
			admit()
			s.servers[lost].restart(false)
			_ = before.backend.tend(t.Context())
			admit()
			if got += after.admits(simBurst, true); got < 1 {
				t.Error("nothing was admitted")
			}
		})
	}
}

// A server that comes back into a list that it was in before does not know what came since.
func TestAServerComesBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(12 * time.Hour)
		servers := newMemoryServers(4)
		first, second := newBackend(servers[:3], backendOptions{}), newBackend(servers[1:], backendOptions{})
		if err := first.tend(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := second.replace(t.Context(), 2, first.hash); err != nil {
			t.Fatal(err)
		}
		if err := first.replace(t.Context(), 0, second.hash); err != nil {
			t.Fatal(err)
		}
		marks, err := first.marks(t.Context())
		if err != nil || marks[0].mark.ever || !marks[1].mark.ever || !marks[2].mark.ever {
			t.Error("the server that came back is taken for one that has seen all", err)
		}
	})
}
