package quorumstore

import (
	"context"
	"fmt"
	"testing"
	"time"
)

// A process that is refused does not wait for a server that hangs.
func TestARefusalDoesNotWaitForAHungServer(t *testing.T) {
	t.Parallel()
	for _, refuses := range []int{1, 2} {
		t.Run(fmt.Sprint(refuses), func(t *testing.T) {
			t.Parallel()
			_, wrong := simulate(t, rules{}, func(s *simulation) error {
				n := s.nodes[1].backend
				s.nodes[1].take("other", true, false)
				ahead := &operation{verb: verbPrepare, key: "k", ballot: ballot{n.quorumTime() + time.Hour.Microseconds(), 1}}
				for _, sv := range s.servers[:refuses] {
					if _, err := sv.call(context.Background(), &request{head: head{members: n.hash, slack: n.slack}, ops: []operation{*ahead}}); err != nil {
						return err
					}
				}
				hung := n.members[2]
				hung.silent.Store(true)
				s.nodes[1].holds(2, func(*request) time.Duration { return 10 * time.Second })
				p := &proposal{key: "k", change: func(p *proposal, chosen []part, upTo int) bool {
					p.unchanged(chosen, upTo, time.Now(), 0)
					return true
				}}
				begun := time.Now()
				n.propose(context.Background(), []*proposal{p})
				if took := time.Since(begun); took > simTimeout/2 {
					t.Errorf("it took %v", took)
				}
				if p.phase != notMade || p.told != ahead.ballot {
					t.Errorf("phase %v, told %v", p.phase, p.told)
				}
				return nil
			})
			if wrong != nil {
				t.Error(wrong)
			}
		})
	}
}
