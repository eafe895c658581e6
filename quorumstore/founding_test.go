package quorumstore

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A founding that an error has stopped goes on, unless a member has lost what it may have
// accepted meanwhile.
func TestAFoundingGoesOn(t *testing.T) {
	t.Parallel()
	for _, step := range []struct {
		name      string
		server    int
		call      int // to the server: it reads the mark, sets it, and says that it knows all
		restart   bool
		after     time.Duration
		suspended bool // the process stands still, with its clock
		wantWhole bool
	}{
		{"a mark is not set", 2, 2, false, time.Second, false, true},
		{"one is not said to know all", 1, 3, false, time.Minute, false, true},
		{"one without a mark restarts", 2, 2, true, time.Second, false, true},
		{"one with a mark restarts", 1, 3, true, time.Minute, false, false},
		{"one restarts once the others are said to know all", 2, 3, true, time.Second, false, false},
		{"a mark is not set for long", 2, 2, false, time.Minute, false, false},
		{"a mark is not set for a suspension", 2, 2, false, time.Minute, true, false},
	} {
		t.Run(step.name, func(t *testing.T) {
			t.Parallel()
			_, wrong := simulate(t, rules{}, func(s *simulation) error {
				for _, sv := range s.servers {
					sv.restart(false)
				}
				founder, calls := s.addNode(), 0
				founder.holds(step.server, func(*request) time.Duration {
					if calls++; calls == step.call {
						founder.setCut(step.server)
					}
					return 0
				})
				if err := founder.backend.tend(context.Background()); err == nil {
					t.Error("the founding did not stop")
				}
				if step.suspended {
					for _, sv := range s.servers {
						sv.leap(step.after)
					}
				} else {
					time.Sleep(step.after)
				}
				if step.restart {
					s.servers[step.server].restart(false)
				}
				founder.setCut()
				if err := founder.backend.tend(context.Background()); step.wantWhole && err != nil {
					t.Error(err)
				}
				whole := 0
				for _, sv := range s.servers {
					if sv.marked().ever {
						whole++
					}
				}
				if (whole == 3) != step.wantWhole {
					t.Errorf("%d servers are said to know all", whole)
				}
				return nil
			})
			if wrong != nil {
				t.Error(wrong)
			}
		})
	}
}

// Two processes name the servers in another order, and found the quorum at the same time. One of them must
// found it to the end.
func TestOneOfTwoFoundersEnds(t *testing.T) {
	t.Parallel()
	_, wrong := simulate(t, rules{}, func(s *simulation) error {
		for _, sv := range s.servers {
			sv.restart(false)
		}
		var all sync.WaitGroup
		for _, n := range []*simNode{s.addNodeOf(0, 1, 2), s.addNodeOf(2, 1, 0)} {
			all.Go(func() { _ = n.backend.tend(context.Background()) })
		}
		all.Wait()
		for _, sv := range s.servers {
			if !sv.marked().ever {
				t.Errorf("%s is not said to know all", sv.label)
			}
		}
		return nil
	})
	if wrong != nil {
		t.Error(wrong)
	}
}

// pausing is a server after whose next answer to a mark that is set the process stands still.
type pausing struct {
	server

	pause func()
}

func (p *pausing) mark(ctx context.Context, r *markRequest) (*markReply, error) {
	re, err := p.server.mark(ctx, r)
	if pause := p.pause; pause != nil && err == nil && re.set {
		p.pause = nil
		pause()
	}
	return re, err
}

// The founder stands still before it marks the last server. Another process marks that one, the servers
// become old enough for a limit, and the last one is emptied. The founder must not say that it knows all.
func TestAFounderThatStoodStillMarksNoServer(t *testing.T) {
	t.Parallel()
	_, wrong := simulate(t, rules{}, func(s *simulation) error {
		for _, sv := range s.servers {
			sv.restart(false)
		}
		const lacks, second, last = 0, 1, 2
		founder, other, late := s.addNode(), s.addNode(), s.addNode()
		founder.backend.members[second].server = &pausing{founder.backend.members[second].server, func() {
			for range 10 {
				_ = other.backend.tend(context.Background())
				elapse(time.Second)
			}
			other.setCut(lacks)
			if h := other.takeN("k", simBurst, true, false); !h.allowed {
				t.Errorf("%+v", h)
			}
			s.servers[last].wipe()
		}}
		_ = founder.backend.tend(context.Background())
		for range 3 {
			_ = late.backend.tend(context.Background())
			elapse(simTimeout)
		}
		late.setCut(second)
		if h := late.takeN("k", simBurst, true, false); h.allowed {
			t.Errorf("after all units were allowed: %+v", h)
		}
		return nil
	})
	if wrong != nil {
		t.Error(wrong)
	}
}

// No member gets its first mark for longer than a founding may take. The founding then begins afresh.
func TestAFoundingBeginsAfresh(t *testing.T) {
	t.Parallel()
	_, wrong := simulate(t, rules{}, func(s *simulation) error {
		for _, sv := range s.servers {
			sv.restart(false)
		}
		founder, calls := s.addNode(), 0
		founder.holds(0, func(*request) time.Duration {
			if calls++; calls == 2 {
				founder.setCut(0)
			}
			return 0
		})
		if err := founder.backend.tend(context.Background()); err == nil {
			t.Error("the founding did not stop")
		}
		elapse(time.Minute)
		founder.setCut()
		return founder.backend.tend(context.Background())
	})
	if wrong != nil {
		t.Error(wrong)
	}
}

// The founder does not reach the last server for a moment. Another process must leave it the time to go on.
func TestAFoundingIsLeftTimeToGoOn(t *testing.T) {
	t.Parallel()
	_, wrong := simulate(t, rules{}, func(s *simulation) error {
		for _, sv := range s.servers {
			sv.restart(false)
		}
		founder, other, calls := s.addNode(), s.addNode(), 0
		founder.holds(2, func(*request) time.Duration {
			if calls++; calls == 2 {
				founder.setCut(2)
			}
			return 0
		})
		_ = founder.backend.tend(context.Background())
		for range 15 {
			_ = other.backend.tend(context.Background())
			elapse(simTimeout)
		}
		founder.setCut()
		_ = founder.backend.tend(context.Background())
		for _, sv := range s.servers {
			if !sv.marked().ever {
				t.Errorf("%s is not said to know all", sv.label)
			}
		}
		return nil
	})
	if wrong != nil {
		t.Error(wrong)
	}
}

// A process could not reach a server of a new quorum for longer than a founding may take. It then comes
// between two marks of the founder, and must leave it the time to go on.
func TestAFoundingIsNotCutShortByOneWhoWaited(t *testing.T) {
	t.Parallel()
	_, wrong := simulate(t, rules{}, func(s *simulation) error {
		for _, sv := range s.servers {
			sv.restart(false)
		}
		founder, other := s.addNode(), s.addNode()
		other.setCut(2)
		for range 30 {
			_ = other.backend.tend(context.Background())
			elapse(simTimeout)
		}
		other.setCut()
		for i := range s.servers {
			founder.holds(i, func(*request) time.Duration { return 5 * time.Millisecond })
		}
		founded := make(chan error)
		go func() { founded <- founder.backend.tend(context.Background()) }()
		elapse(12 * time.Millisecond) // the first server has a mark
		_ = other.backend.tend(context.Background())
		if err := <-founded; err != nil {
			t.Error(err)
		}
		for range 50 {
			_ = founder.backend.tend(context.Background())
			_ = other.backend.tend(context.Background())
			elapse(simTimeout)
		}
		for _, sv := range s.servers {
			if !sv.marked().ever {
				t.Errorf("%s is not said to know all", sv.label)
			}
		}
		return nil
	})
	if wrong != nil {
		t.Error(wrong)
	}
}

// farServer is a server whose answers take long, with the round trips of a redisServer.
type farServer struct {
	server

	trip time.Duration
}

func (f farServer) mark(ctx context.Context, r *markRequest) (*markReply, error) {
	time.Sleep(f.trip * 3 / 2) // INFO, and the way of the script
	re, err := f.server.mark(ctx, r)
	time.Sleep(f.trip / 2)
	if err == nil && r.search && re.mark == (mark{}) {
		time.Sleep(f.trip) // SCAN
	}
	if ctx.Err() != nil {
		return nil, errLost
	}
	return re, err
}

// A quorum is founded with any time-out, and over slow links.
func TestAQuorumIsFoundedSlowly(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		servers       int
		timeout, trip time.Duration
	}{
		{3, 2 * time.Second, time.Millisecond},
		{3, 50 * time.Millisecond, time.Millisecond},
		{3, time.Minute, time.Millisecond},
		{3, time.Second, 250 * time.Millisecond},
		{3, 2 * time.Second, 400 * time.Millisecond},
		{7, 4 * time.Second, 400 * time.Millisecond},
	} {
		synctest.Test(t, func(t *testing.T) {
			servers := newMemoryServers(c.servers)
			for i := range servers {
				servers[i] = farServer{servers[i], c.trip}
			}
			b := newBackend(servers, backendOptions{Timeout: c.timeout})
			if err := b.tend(t.Context()); err != nil {
				t.Errorf("%+v: %v", c, err)
			}
		})
	}
}

// A link is slow: there is time to read the mark of a server, and not to search it. A server that was emptied is
// taken in again, and one is replaced.
func TestASlowLinkTakesServersIn(t *testing.T) {
	t.Parallel()
	const trip = 400 * time.Millisecond
	emptied := func(s server) {
		m := s.(memberServer).memoryServer
		m.mu.Lock()
		defer m.mu.Unlock()
		m.rows, m.mark = map[string]row{}, mark{}
	}
	takes := map[string]func(t *testing.T, servers []server) error{
		"a process that knows the quorum": func(t *testing.T, servers []server) error {
			b := newBackend(servers, backendOptions{Timeout: time.Second})
			if err := b.tend(t.Context()); err != nil {
				return err
			}
			emptied(servers[1])
			for _, m := range b.members {
				m.server = farServer{m.server, trip}
			}
			return b.tend(t.Context())
		},
		"another process": func(t *testing.T, servers []server) error {
			if err := newBackend(servers, backendOptions{Timeout: time.Second}).tend(t.Context()); err != nil {
				return err
			}
			emptied(servers[1])
			b := newBackend(servers, backendOptions{Timeout: time.Second})
			for _, m := range b.members {
				m.server = farServer{m.server, trip}
			}
			_ = b.tend(t.Context()) // finds that the others know all
			return b.tend(t.Context())
		},
		"a replacement": func(t *testing.T, servers []server) error {
			b := newBackend(servers, backendOptions{Timeout: time.Second})
			if err := b.tend(t.Context()); err != nil {
				return err
			}
			servers[1] = newMemoryServers(4)[3]
			after := newBackend(servers, backendOptions{Timeout: time.Second})
			for _, m := range after.members {
				m.server = farServer{m.server, trip}
			}
			return after.replace(t.Context(), 1, b.hash)
		},
	}
	for name, take := range takes {
		synctest.Test(t, func(t *testing.T) {
			servers := newMemoryServers(3)
			if err := take(t, servers); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if servers[1].(memberServer).memoryServer.marked().incarnation == 0 {
				t.Errorf("%s: the server is no member", name)
			}
		})
	}
}
