package quorumstore

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// Two processes hear other servers, whose clocks are almost a second apart. By that of one of them
// the day has ended, and it writes the key for another limit. The count of the day must still be there
// for the other process, whose day has not ended.
func TestAnEndedStateIsKeptForSlowerClocks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(23*time.Hour + 59*time.Minute)
		s := newSimulation(1, 3, rules{}, 0)
		s.steady = true
		s.calm.Store(true)
		s.servers[1].offset, s.servers[2].offset = 900*time.Millisecond, 900*time.Millisecond
		fast, slow := s.nodes[0], s.nodes[1]
		s.found(t)
		slow.setCut(2) // from the start, so its clock is that of the first server
		for range 3 {
			if !slow.take("k", true, true).allowed {
				t.Fatal("the first calls")
			}
		}
		elapse(58*time.Second + 500*time.Millisecond)
		if h := fast.take("k", true, false); !h.allowed || time.UnixMicro(h.at).UTC().Hour() != 0 {
			t.Fatalf("%+v", h)
		}
		if used := slow.used("k"); used != 3 {
			t.Errorf("%d units of the day are used after 3 were allowed", used)
		}
		if h := fast.take("k", false, true); !h.allowed || h.used != 1 {
			t.Errorf("the first unit of the next day: %+v", h)
		}
		elapse(simTimeout + 3*time.Second)
		if h := slow.take("k", true, true); !h.allowed || h.used != 2 {
			t.Errorf("the second unit of the next day: %+v", h)
		}
		closeAll(s)
	})
}

// The rows of a server expire while its clock is ahead. It runs back, and cannot be born again while
// another server is cut off. A process that starts then has not seen that, and must not use the server.
func TestAServerWhoseClockWasAheadIsUsedByNobody(t *testing.T) {
	t.Parallel()
	const a, b, c = 0, 1, 2
	for name, see := range map[string]struct{ ahead, back func(n *simNode) }{
		"seen when it runs back": {func(n *simNode) { n.used("k") }, func(n *simNode) { n.used("k") }},
		"seen while it is ahead": {func(n *simNode) {
			n.used("k")
			n.setCut() // of two clocks, nobody knows which is wrong
			if err := n.backend.tend(context.Background()); err != nil {
				t.Error(err)
			}
			n.setCut(c)
		}, func(*simNode) {}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, wrong := simulate(t, rules{}, func(s *simulation) error {
				for _, n := range s.nodes {
					n.setCut(c)
					if h := n.take("k", false, true); !h.allowed {
						return fmt.Errorf("%+v", h)
					}
				}
				s.servers[a].leap(25 * time.Hour)
				see.ahead(s.nodes[0])
				s.servers[a].leap(-25 * time.Hour)
				see.back(s.nodes[0])
				elapse(time.Second)
				late := s.addNode()
				late.setCut(b)
				if h := late.take("k", false, true); h.err == nil && h.used <= 3 {
					t.Errorf("after 3 units were allowed: %+v", h)
				}
				for _, n := range s.nodes {
					n.setCut()
				}
				if err := late.backend.tend(context.Background()); err != nil {
					return err
				}
				if used := late.used("k"); used != 3 {
					return fmt.Errorf("%d units are used, once all servers are members", used)
				}
				return nil
			})
			if wrong != nil {
				t.Error(wrong)
			}
		})
	}
}
