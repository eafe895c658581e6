package quorumstore

import (
	"context"
	"slices"
	"testing"
	"time"
)

// A write of two classes reaches one server alone, after another process has read too few old servers
// to write more than the lower class, and has written that. The writer does not reach that server any
// more, decides again, and is denied: no part of its first write may be found later.
func TestNoPartOfADeniedWriteIsFoundLater(t *testing.T) {
	t.Parallel()
	steadily(t, 5, 12*time.Hour, func(t *testing.T, s *simulation) {
		n, other, late := s.nodes[0], s.nodes[1], s.nodes[2]
		const young, alone = 0, 4
		elapse(10 * time.Second)
		s.servers[young].restart(false)
		if err := n.backend.tend(context.Background()); err != nil {
			t.Fatal(err)
		}
		elapse(5 * time.Second) // it promises
		if !late.take("k", true, true).allowed || !n.take("k", true, true).allowed || late.used("k") != 2 {
			t.Fatal("the first calls")
		}
		elapse(8 * time.Second) // it is old enough for the short limit
		n.take("other", true, false)
		other.take("other", true, false)
		other.setCut(alone)
		other.slow(3, verbRead, verbPrepareNew) // the first majority that it reads has the young server
		for i := range alone {
			n.slow(i, verbAccept)
		}
		denied := make(chan *simTake)
		go func() { denied <- n.take("k", true, true) }()
		elapse(time.Millisecond)
		n.setCut(alone)
		if h := other.takeN("k", simBurst, true, false); !h.allowed {
			t.Errorf("the other process: %+v", h)
		}
		h := <-denied
		n.setCut()
		late.setCut(3) // it needs the server that has the write
		used := late.used("k")
		if h.err == nil && !h.allowed && used != 2 {
			t.Errorf("%d units are used after 2 were allowed", used)
		}
		if h.err != nil || h.allowed {
			t.Errorf("the call was not denied: %+v", h)
		}
	})
}

// A limit of a day is in its last seconds when a check of another limit writes its key. One server
// alone gets the write, and is cut off. Another process reads a young server, and so writes the lower
// classes alone. The count of the day must still be there when the first server is read again.
func TestACountIsNotHiddenInItsLastSeconds(t *testing.T) {
	t.Parallel()
	steadily(t, 5, 23*time.Hour+59*time.Minute, func(t *testing.T, s *simulation) {
		n, other, late := s.nodes[0], s.nodes[1], s.nodes[2]
		const young, alone = 0, 4
		for range 3 {
			if !n.take("k", true, true).allowed {
				t.Fatal("the first calls")
			}
		}
		elapse(30 * time.Second)
		s.servers[young].restart(false)
		if err := n.backend.tend(context.Background()); err != nil {
			t.Fatal(err)
		}
		elapse(26 * time.Second) // the short limit has forgotten, and the day has about three seconds left
		if used := n.used("k"); used != 3 {
			t.Fatalf("%d units of the day are used", used)
		}
		n.take("other", true, false)
		other.take("other", true, false)
		other.setCut(alone)
		// The first majority that the other process reads has the young server, and that of this one has
		// not. Its write reaches one server before it is cut off from all.
		other.slow(3, verbRead, verbPrepareNew)
		n.slow(young, verbRead, verbPrepareNew, verbPrepare, verbAccept)
		for i := 1; i < alone; i++ {
			n.slow(i, verbAccept)
		}
		go n.take("k", true, false)
		elapse(time.Millisecond)
		n.setCut(0, 1, 2, 3, alone)
		if h := other.take("k", true, false); !h.allowed {
			t.Errorf("the other process: %+v", h)
		}
		late.setCut(1) // it needs the server that has the write
		if used := late.used("k"); used != 3 {
			t.Errorf("%d units of the day are used after 3 were allowed", used)
		}
	})
}

// slow has the requests to a server that begin with one of the operations take 3 ms.
func (n *simNode) slow(server int, verbs ...verb) {
	n.holds(server, func(r *request) time.Duration {
		if r != nil && slices.Contains(verbs, r.ops[0].verb) {
			return 3 * time.Millisecond
		}
		return 0
	})
}

// A write of two classes of a new key reaches one server alone. Another process reads that with a young
// server, and so confirms the lower class alone. The writer then finds its stamp in the lower class, and
// nothing in the higher one: it must not take the write for made.
func TestAWriteIsNotMadeInOneClassAlone(t *testing.T) {
	t.Parallel()
	steadily(t, 5, 12*time.Hour, func(t *testing.T, s *simulation) {
		n, other, late := s.nodes[0], s.nodes[1], s.nodes[2]
		const young, alone = 0, 4
		elapse(10 * time.Second)
		s.servers[young].restart(false)
		if err := n.backend.tend(context.Background()); err != nil {
			t.Fatal(err)
		}
		elapse(12 * time.Second) // it is old enough for the short limit
		n.take("other", true, false)
		other.take("other", true, false)
		for _, i := range []int{2, 3} {
			other.slow(i, verbRead, verbPrepareNew, verbPrepare)
		}
		for i := range alone {
			n.slow(i, verbAccept)
		}
		taken := make(chan *simTake)
		go func() { taken <- n.take("k", true, true) }()
		elapse(time.Millisecond)
		n.setCut(0, 1, 2, 3, alone)
		if h := other.take("k", true, false); !h.allowed {
			t.Errorf("the other process: %+v", h)
		}
		elapse(5 * time.Millisecond) // until its accepts are lost
		n.setCut(alone)
		h := <-taken
		n.setCut()
		if used := late.used("k"); h.allowed && used != 1 {
			t.Errorf("%d units of the day are used after 1 was allowed", used)
		}
	})
}
