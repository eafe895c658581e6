package quorumstore

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"
)

// replacements are schedules around the replacement of the server s2 by s3. Each returns what is
// wrong.
var replacements = map[string]func(s *simulation) error{
	"members restart before the replacement": restartsBeforeReplacement,
	"processes of both lists mark members":   birthsByBothLists,
	"a disk tells the list":                  diskTellsTheList,
	"a disk is of before the replacement":    diskOfBefore,
	"a process stands still over it":         standsStillOverReplacement,
}

func TestReplacements(t *testing.T) {
	t.Parallel()
	for name, script := range replacements {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, wrong := simulate(t, rules{}, script); wrong != nil {
				t.Error(wrong)
			}
		})
	}
}

// replaced adds a server, and a node that has it in its list, which replaces another one.
func (s *simulation) replaced() (before, after *simNode, err error) {
	s.addServer()
	before, after = s.nodes[0], s.addNodeOf(0, 1, 3)
	return before, after, after.backend.replace(context.Background(), 2, before.backend.hash)
}

// A process that has the new list already, and has seen marks, finds all servers of the list
// empty: the new one, and two that have restarted. The removed one has the charges.
func restartsBeforeReplacement(s *simulation) error {
	s.addServer()
	after := s.addNodeOf(0, 1, 3)
	got := s.nodes[0].admits(simBurst, true)
	after.take("k", true, false) // is refused
	s.servers[0].restart(false)
	s.servers[1].restart(false)
	got += after.admits(simBurst, true)
	return atMost(simBurst, got)
}

// Two members restart empty after the replacement. A process of each list sees both without a
// mark, and each marks one of them first.
func birthsByBothLists(s *simulation) error {
	before, after, err := s.replaced()
	if err != nil {
		return err
	}
	after.take("k", true, false) // now it knows that the quorum was founded
	if err := after.backend.tend(context.Background()); err != nil {
		return err
	}
	s.servers[0].restart(false)
	s.servers[1].restart(false)
	secondMark := func(n *simNode, server int, delay time.Duration) {
		marks := 0
		n.holds(server, func(r *request) time.Duration {
			if r == nil {
				marks++
			}
			if marks == 2 {
				return delay
			}
			return 0
		})
	}
	secondMark(before, 1, 90*time.Millisecond)
	secondMark(after, 0, 50*time.Millisecond)
	for _, n := range []*simNode{before, after} {
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			_ = n.backend.tend(ctx)
		}()
	}
	elapse(20 * time.Second) // all are old enough for the short limit
	got := before.admits(simBurst, true) + after.admits(simBurst, true)
	if got == 0 {
		return errors.New("no list has a majority")
	}
	return atMost(simBurst, got)
}

// One member restarts empty after the replacement, and another one from its disk, whose mark
// tells that the list of before is over.
func diskTellsTheList(s *simulation) error {
	before, after, err := s.replaced()
	if err != nil {
		return err
	}
	s.servers[1].save()
	s.servers[0].restart(false)
	s.servers[1].restart(true)
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = before.backend.tend(ctx)
	if err := after.backend.tend(ctx); err != nil {
		return err
	}
	elapse(20 * time.Second)
	if after.admits(1, true) == 0 {
		return errors.New("the new list has no majority")
	}
	return nil
}

// A member restarts from a disk of before the replacement, whose mark has the old list. The same
// replacement, made again, takes it in. The new server keeps what it knows.
func diskOfBefore(s *simulation) error {
	s.servers[0].save()
	before, after, err := s.replaced()
	if err != nil {
		return err
	}
	got := after.admits(3, false)
	elapse(10 * time.Second)
	if err := after.backend.repair(context.Background(), after.backend.members[2]); err != nil {
		return err
	}
	s.servers[0].restart(true)
	if err := after.backend.replace(context.Background(), 2, before.backend.hash); err != nil {
		return err
	}
	if m := s.servers[0].mark; m.members != after.backend.hash || m.run != s.servers[0].runID() {
		return fmt.Errorf("the member has the mark %+v", m)
	}
	if used := after.used("k"); used != got {
		return fmt.Errorf("%d units are used after %d", used, got)
	}
	return nil
}

// slowRead is a server after whose next mark the process may stand still.
type slowRead struct {
	server

	pause atomic.Pointer[func()]
}

func (p *slowRead) pauses(f func()) { p.pause.Store(&f) }

func (p *slowRead) mark(ctx context.Context, r *markRequest) (*markReply, error) {
	re, err := p.server.mark(ctx, r)
	if pause := p.pause.Swap(nil); pause != nil {
		(*pause)()
	}
	return re, err
}

// A process of the old list has read the marks, one of them of a server that has just restarted, and stands
// still. The replacement is made, and that server is emptied. It must not get a mark of the old list.
func standsStillOverReplacement(s *simulation) (err error) {
	before, still := s.nodes[0], s.nodes[2]
	slow := &slowRead{server: still.backend.members[2].server}
	still.backend.members[2].server = slow
	still.take("k", false, true) // now it knows that the quorum was founded
	s.servers[1].restart(false)
	var after *simNode
	slow.pauses(func() {
		_, after, err = s.replaced()
		elapse(10 * time.Second)
		s.servers[1].wipe()
	})
	_ = still.backend.tend(context.Background())
	elapse(10 * time.Second)
	got := before.admits(simBurst, true) + after.admits(simBurst, true)
	return errors.Join(err, atMost(simBurst, got))
}
