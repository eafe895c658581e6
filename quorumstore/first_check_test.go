package quorumstore

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/cas"
)

// A check that comes while another process founds the quorum waits for it.
func TestACheckWaitsForTheFounding(t *testing.T) {
	t.Parallel()
	for _, marked := range []int{1, 2, 3} { // members that have a mark when the check begins
		synctest.Test(t, func(t *testing.T) {
			servers := newMemoryServers(3)
			founder := newBackend(servers, backendOptions{})
			marks, err := founder.marks(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			own := make([]mark, 3)
			set := func(i int, old, now mark) {
				if err := founder.setMark(t.Context(), founder.members[i], old, now); err != nil {
					t.Error(err)
				}
			}
			for i := range 3 {
				own[i] = founder.newMark(marks[i])
				if i < marked {
					set(i, mark{}, own[i])
				}
			}
			time.AfterFunc(200*time.Millisecond, func() {
				for i := range 3 {
					ever := own[i]
					ever.ever = true
					if i >= marked {
						set(i, mark{}, own[i])
					}
					set(i, own[i], ever)
				}
			})
			s := newTestStore(t, servers)
			if d, err := s.Take(t.Context(), testClaim(t, "k", "5/h")); err != nil || !d.Allowed {
				t.Errorf("with %d marks: %+v %v", marked, d, err)
			}
			_ = s.Close()
		})
	}
}

// slowServer is a server of which the calls, or the marks that say that it knows all, take longer.
type slowServer struct {
	server

	answer, ever time.Duration
}

func (s slowServer) call(ctx context.Context, r *request) (*reply, error) {
	re, err := s.server.call(ctx, r)
	time.Sleep(s.answer)
	return re, err
}

func (s slowServer) mark(ctx context.Context, r *markRequest) (*markReply, error) {
	if r.new.ever {
		time.Sleep(s.ever)
	}
	return s.server.mark(ctx, r)
}

// The servers get their marks between the reads of a check and its look at them. The founding has ended
// then, and what the reads found is of before.
func TestACheckReadsAgainOnceTheQuorumIsFounded(t *testing.T) {
	t.Parallel()
	const trip = time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		servers := newMemoryServers(3)
		founder := newBackend(slices.Clone(servers), backendOptions{})
		for i := range servers {
			founder.members[i].server = slowServer{server: servers[i], ever: trip}
			servers[i] = slowServer{server: servers[i], answer: 10 * trip}
		}
		own := newBackend(servers, backendOptions{})
		s := cas.New(own, cas.Options{Name: "quorumstore", Heartbeat: -1})
		defer s.Close()
		var all sync.WaitGroup
		defer all.Wait()
		all.Go(func() {
			_ = founder.tend(t.Context())
			_ = own.tend(t.Context()) // as the maintenance does
		})
		elapse(trip / 2) // the servers have marks that do not say that they know all
		if d, err := s.Take(t.Context(), testClaim(t, "k", "5/h")); err != nil || !d.Allowed {
			t.Errorf("%+v %v", d, err)
		}
	})
}

// Another process has said of one server that it knows all, and not yet of the others.
func TestACheckWaitsForTheEndOfTheFounding(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		servers := newMemoryServers(3)
		founder := newBackend(slices.Clone(servers), backendOptions{})
		founder.members[1].server = slowServer{server: servers[1], ever: 100 * time.Millisecond}
		var all sync.WaitGroup
		defer all.Wait()
		all.Go(func() { _ = founder.tend(t.Context()) })
		synctest.Wait()
		s := cas.New(newBackend(servers, backendOptions{}), cas.Options{Name: "quorumstore", Heartbeat: -1})
		defer s.Close()
		if d, err := s.Take(t.Context(), testClaim(t, "k", "5/h")); err != nil || !d.Allowed {
			t.Errorf("%+v %v", d, err)
		}
	})
}

// Another check of the process reads the quorum once it is founded, while the answers to the first one are
// under way.
func TestACheckReadsAgainAfterAnotherOne(t *testing.T) {
	t.Parallel()
	const trip = time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		servers := newMemoryServers(3)
		founder := newBackend(slices.Clone(servers), backendOptions{})
		own := newBackend(servers, backendOptions{})
		for i := range servers {
			founder.members[i].server = slowServer{server: servers[i], ever: trip}
			own.members[i].server = slowServer{server: servers[i], answer: 10 * trip}
		}
		s := cas.New(own, cas.Options{Name: "quorumstore", Heartbeat: -1})
		defer s.Close()
		var all sync.WaitGroup
		defer all.Wait()
		all.Go(func() { _ = founder.tend(t.Context()) })
		elapse(trip / 2)
		all.Go(func() {
			if d, err := s.Take(t.Context(), testClaim(t, "slow", "5/h")); err != nil || !d.Allowed {
				t.Errorf("slow: %+v %v", d, err)
			}
		})
		elapse(4 * trip)
		synctest.Wait()
		for i := range servers { // the answers of the first check are under way
			own.members[i].server = servers[i]
		}
		if d, err := s.Take(t.Context(), testClaim(t, "quick", "5/h")); err != nil || !d.Allowed {
			t.Errorf("quick: %+v %v", d, err)
		}
	})
}

// unreachable is a server that a process does not reach. It notes when the process looks for its mark.
type unreachable struct {
	server

	looked func()
}

func (u unreachable) call(context.Context, *request) (*reply, error) { return nil, errLost }

func (u unreachable) mark(context.Context, *markRequest) (*markReply, error) {
	u.looked()
	return nil, errLost
}

// Another process founds the quorum after the reads of a check, which does not reach one of the servers.
func TestACheckWaitsThatDoesNotReachAServer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		servers := newMemoryServers(3)
		founder := newBackend(slices.Clone(servers), backendOptions{})
		servers[2] = unreachable{servers[2], func() {
			elapse(time.Millisecond) // the reads have ended
			_ = founder.tend(t.Context())
		}}
		s := cas.New(newBackend(servers, backendOptions{}), cas.Options{Name: "quorumstore", Heartbeat: -1})
		defer s.Close()
		if d, err := s.Take(t.Context(), testClaim(t, "k", "5/h")); err != nil || !d.Allowed {
			t.Errorf("%+v %v", d, err)
		}
	})
}

// linkedServer is a server over the link of one process.
type linkedServer struct {
	server

	trip time.Duration
	down *bool
}

func (s linkedServer) call(ctx context.Context, r *request) (*reply, error) {
	if *s.down {
		return nil, errLost
	}
	time.Sleep(s.trip / 2)
	re, err := s.server.call(ctx, r)
	time.Sleep(s.trip / 2)
	return re, err
}

func (s linkedServer) mark(ctx context.Context, r *markRequest) (*markReply, error) {
	if *s.down {
		return nil, errLost
	}
	time.Sleep(s.trip / 2)
	re, err := s.server.mark(ctx, r)
	time.Sleep(s.trip / 2)
	return re, err
}

// Two processes found the quorum for the check of each, once its last server has come.
func TestTheCheckOfTheSlowerFounderWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		servers := newMemoryServers(3)
		up, down := false, true
		var stores [2]*cas.Store
		for p := range stores {
			linked := make([]server, len(servers))
			for i := range linked {
				linked[i] = linkedServer{servers[i], time.Duration(10+p) * time.Millisecond, &up}
			}
			linked[2] = linkedServer{servers[2], 10 * time.Millisecond, &down}
			stores[p] = cas.New(newBackend(linked, backendOptions{}), cas.Options{Name: "quorumstore", Heartbeat: -1})
			defer stores[p].Close()
			if _, err := stores[p].Take(t.Context(), testClaim(t, "k", "5/h")); err == nil {
				t.Error("a check is answered before the quorum is founded")
			}
		}
		elapse(100 * time.Millisecond) // too soon for another founding in the background
		down = false
		var all sync.WaitGroup
		for p, s := range stores {
			all.Go(func() {
				if d, err := s.Take(t.Context(), testClaim(t, "k", "5/h")); err != nil || !d.Allowed {
					t.Errorf("process %d: %+v %v", p, d, err)
				}
			})
		}
		all.Wait()
		elapse(time.Second) // until the calls in the background have ended
	})
}

// A check does not wait if no founding can be going on.
func TestACheckDoesNotWait(t *testing.T) {
	t.Parallel()
	restart := func(servers []server) {
		for _, s := range servers {
			m := s.(memberServer).memoryServer
			m.mu.Lock()
			m.startLocked()
			m.rows, m.mark = map[string]row{}, mark{}
			m.mu.Unlock()
		}
	}
	type process struct {
		*backend
		*cas.Store
	}
	start := func(servers []server) process {
		b := newBackend(slices.Clone(servers), backendOptions{})
		return process{b, cas.New(b, cas.Options{Name: "quorumstore", Heartbeat: -1})}
	}
	for name, prepare := range map[string]func(t *testing.T, servers []server, other process) (own process){
		"the servers were marked long ago, and none is said to know all": func(_ *testing.T, servers []server, _ process) process {
			for _, s := range servers {
				m := s.(memberServer).memoryServer
				m.mark.ever = false
			}
			return start(servers)
		},
		"two servers of a quorum have restarted": func(t *testing.T, servers []server, other process) process {
			restart(servers[:2])
			_ = other.tend(t.Context())
			return start(servers)
		},
		"all have restarted, and the process has read from them": func(t *testing.T, servers []server, other process) process {
			own := start(servers)
			if _, err := own.Take(t.Context(), testClaim(t, "k", "5/h")); err != nil {
				t.Error(err)
			}
			restart(servers)
			_ = other.tend(t.Context())
			return own
		},
		"two servers are down": func(t *testing.T, servers []server, _ process) process {
			for i := range 2 {
				servers[i] = failingServer{servers[i], errLost}
			}
			own := start(servers)
			_ = own.tend(t.Context())
			return own
		},
		"one is down, and the clocks of the others do not agree": func(t *testing.T, servers []server, _ process) process {
			servers[0] = failingServer{servers[0], errLost}
			servers[1].(memberServer).clock = func() int64 { return time.Now().Add(3 * maxSkew / 2).UnixMicro() }
			own := start(servers)
			_ = own.tend(t.Context())
			return own
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				servers := newMemoryServers(3)
				other := start(servers)
				defer other.Close()
				if err := other.tend(t.Context()); err != nil {
					t.Fatal(err)
				}
				elapse(time.Hour)
				own := prepare(t, servers, other)
				defer own.Close()
				start := time.Now()
				if _, err := own.Take(t.Context(), testClaim(t, "k", "5/h")); stint.CodeOf(err) != stint.CodeUnavailable {
					t.Error(err)
				}
				if took := time.Since(start); took > 100*time.Millisecond {
					t.Errorf("the check waited for %v", took)
				}
			})
		})
	}
}
