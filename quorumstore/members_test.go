package quorumstore

import (
	"context"
	"strconv"
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

// A repair copies a value that cannot be read as it is, and goes on with the other keys.
func TestARepairPassesAValueThatCannotBeRead(t *testing.T) {
	t.Parallel()
	_, wrong := simulate(t, rules{}, func(s *simulation) error {
		n := s.nodes[0]
		n.admits(3, false)
		s.nodes[1].take("zz", false, true)
		bad := []part{{class: maxClass, ballot: ballot{1, 1}, expires: time.Now().Add(time.Hour).UnixMicro(), data: []byte("?")}}
		for _, sv := range s.servers {
			sv.rows["=l"] = row{promise: ballot{1, 1}, parts: bad}
		}
		s.servers[0].restart(false)
		if err := n.backend.tend(context.Background()); err != nil {
			return err
		}
		time.Sleep(10 * time.Second)
		if err := n.backend.repair(context.Background(), n.backend.members[0]); err != nil {
			t.Error(err)
		}
		if rows := s.servers[0].rows; len(rows) != 3 || string(rows["=l"].parts[0].data) != "?" {
			t.Errorf("%+v", rows)
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

// A member that is slower than the others, by more than they need to answer, still counts: it may be
// one of a majority that is old enough.
func TestASlowMemberCounts(t *testing.T) {
	t.Parallel()
	_, wrong := simulate(t, rules{}, func(s *simulation) error {
		for _, n := range s.nodes {
			n.holds(2, func(*request) time.Duration { return 30 * time.Millisecond })
		}
		s.nodes[0].admits(3, false)
		s.servers[0].restart(false)
		ctx := context.Background()
		if err := s.nodes[0].backend.tend(ctx); err != nil {
			return err
		}
		if used := s.nodes[0].used("k"); used != 3 {
			t.Errorf("while a member is young, %d units are used", used)
		}
		if h := s.nodes[1].take("k", false, true); !h.allowed {
			t.Error("while a member is young:", h.err)
		}
		elapse(5 * time.Second)
		return s.nodes[0].backend.repair(ctx, s.nodes[0].backend.members[0])
	})
	if wrong != nil {
		t.Error(wrong)
	}
}

// wantNoRepair repairs the first member, and wants an error with a text.
func wantNoRepair(t *testing.T, b *backend, want string) {
	t.Helper()
	if err := b.repair(context.Background(), b.members[0]); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %q", err, want)
	}
}

// A repair says whether it may succeed later.
func TestARepairSaysWhatIsLost(t *testing.T) {
	t.Parallel()
	_, wrong := simulate(t, rules{}, func(s *simulation) error {
		ctx, b := context.Background(), s.nodes[0].backend
		repair := func(want string) { t.Helper(); wantNoRepair(t, b, want) }
		s.servers[0].restart(false)
		if err := b.tend(ctx); err != nil {
			return err
		}
		repair("s0 can be repaired in 2.")
		elapse(5 * time.Second)
		s.nodes[0].setCut(1)
		repair("start those that are down")
		s.nodes[0].setCut()
		s.servers[1].restart(false)
		if err := b.tend(ctx); err != nil {
			return err
		}
		repair("begin afresh")
		return nil
	})
	if wrong != nil {
		t.Error(wrong)
	}
}

// A repair says whose clock keeps it from the counts.
func TestARepairSaysWhoseClockIsOff(t *testing.T) {
	t.Parallel()
	_, wrong := simulate(t, rules{}, func(s *simulation) error {
		ctx, b := context.Background(), s.nodes[0].backend
		repair := func(want string) { t.Helper(); wantNoRepair(t, b, want) }
		s.servers[0].restart(false)
		if err := b.tend(ctx); err != nil {
			return err
		}
		elapse(5 * time.Second)
		s.servers[2].leap(10 * time.Second)
		repair("the clock of s2")
		s.servers[2].leap(-10 * time.Second) // so that it must become a member anew
		repair("had a clock that ran back")
		return nil
	})
	if wrong != nil {
		t.Error(wrong)
	}
}

// A repair takes nothing from a member whose clock is ahead: its rows have expired. The clock may
// leap before the repair, or between its reading of the clocks and its walk.
func TestNoRepairFromAMemberWhoseClockIsAhead(t *testing.T) {
	t.Parallel()
	for _, midWalk := range []bool{false, true} {
		_, wrong := simulate(t, rules{}, func(s *simulation) error {
			a, b, c := 0, 1, 2
			n, other := s.nodes[0], s.nodes[1]
			s.changed.Store(true) // 200 s until it is full
			n.setCut(b)
			got := n.admits(simBurst, true)
			n.setCut()
			if !midWalk {
				s.servers[a].leap(time.Hour)
			}
			s.servers[c].restart(false)
			ctx := context.Background()
			_ = other.backend.tend(ctx)
			elapse(5 * time.Second)
			if midWalk {
				calls := 0
				other.holds(a, func(r *request) time.Duration {
					if calls++; r == nil && calls == 2 { // the first one reads the mark
						s.servers[a].leap(time.Hour)
					}
					return 0
				})
			}
			if err := other.backend.repair(ctx, other.backend.members[c]); err == nil {
				t.Error("the member is repaired; mid-walk:", midWalk)
			}
			return atMost(simBurst, got+other.admits(simBurst, true))
		})
		if wrong != nil {
			t.Errorf("mid-walk %v: %v", midWalk, wrong)
		}
	}
}

// A server whose clock is off does not become a member: its birth would be as wrong.
func TestNoReplacementByAServerWhoseClockIsOff(t *testing.T) {
	t.Parallel()
	for _, off := range []int{1, 3} {
		_, wrong := simulate(t, rules{}, func(s *simulation) error {
			s.addServer()
			after := s.addNodeOf(0, 1, 3)
			s.servers[off].leap(-time.Hour)
			err := after.backend.replace(context.Background(), 2, s.nodes[0].backend.hash)
			if stint.CodeOf(err) != stint.CodeUnavailable || !strings.Contains(err.Error(), "clock of s"+strconv.Itoa(off)) {
				t.Error(err)
			}
			if s.servers[3].marked() != (mark{}) || s.servers[0].marked().members != s.nodes[0].backend.hash {
				t.Error("a mark was set")
			}
			s.servers[off].leap(time.Hour)
			return after.backend.replace(context.Background(), 2, s.nodes[0].backend.hash)
		})
		if wrong != nil {
			t.Error(wrong)
		}
	}
}

// Only a new quorum can be founded.
func TestInitializeSaysWhyItCannot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		servers := newMemoryServers(3)
		b := newBackend(servers, backendOptions{})
		if err := b.initialize(t.Context()); err != nil {
			t.Fatal(err)
		}
		other := newBackend(servers, backendOptions{})
		if err := other.initialize(t.Context()); stint.CodeOf(err) != stint.CodeInvalid || !strings.Contains(err.Error(), "s1 is a member already") {
			t.Error(err)
		}
	})
}

// The classes of lives and of ages.
func TestClasses(t *testing.T) {
	t.Parallel()
	for _, step := range []struct {
		life time.Duration
		want uint8
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
