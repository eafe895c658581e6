package quorumstore

import (
	"context"
	"testing"
	"time"

	"github.com/stintdev/stint"
)

// A limit is used first in the last seconds of its window, so its state is of a low class. In the next
// window the state moves to a higher class, which one server misses. Another one restarts, and is read
// with that one for the short limit, by a call that writes nothing. The new window must still be full.
func TestAnEndedStateDoesNotHideANewerOneOfAHigherClass(t *testing.T) {
	t.Parallel()
	steadily(t, 3, 12*time.Hour, func(t *testing.T, s *simulation) {
		s.midWindow = 20 * time.Second
		n, other, late := s.nodes[0], s.nodes[1], s.nodes[2]
		const young, has, lacks = 0, 1, 2
		elapse(56 * time.Second) // three seconds before the end of a window
		if h := n.call(&simTake{key: "k", cost: 1, mid: true, long: true}); !h.allowed {
			t.Fatalf("%+v", h)
		}
		elapse(5 * time.Second)
		n.setCut(lacks)
		for range simMidLimit {
			if h := n.call(&simTake{key: "k", cost: 1, mid: true}); !h.allowed {
				t.Fatalf("%+v", h)
			}
		}
		n.setCut()
		s.servers[young].restart(false)
		if err := n.backend.tend(context.Background()); err != nil {
			t.Fatal(err)
		}
		elapse(7 * time.Second) // it is old enough for the short limit
		other.setCut(has)
		if h := other.takeN("k", simBurst+1, true, false); h.err != nil || h.allowed {
			t.Errorf("%+v", h)
		}
		late.setCut(young)
		if h := late.call(&simTake{key: "k", cost: 1, mid: true}); h.err != nil || h.allowed {
			t.Errorf("after all units of the window were allowed: %+v", h)
		}
	})
}

// A limit gets numbers of a higher class, so its state moves there, which one server misses: it has the former
// state in the lower class. Another one restarts, and is read with that one for a short limit, by a call that is
// denied. That confirms the former state in a newer write, and still the one that was moved counts.
func TestAStateThatOthersConfirmDoesNotHideTheOneThatReplacedIt(t *testing.T) {
	t.Parallel()
	slow, fast := simLimit(stint.Spec{Rule: "r", Capacity: simBurst, RefillRate: "0.02"}), simLimit(stint.Spec{Rule: "r", Capacity: simBurst, RefillRate: "1"})
	for name, first := range map[string][]stint.Limit{"moved": {fast}, "moved there and back": {slow, fast}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			steadilyBy(t, rules{keepsRows: true}, 3, 12*time.Hour, func(t *testing.T, s *simulation) {
				n, other, late := s.nodes[0], s.nodes[1], s.nodes[2]
				const young, has, lacks = 0, 1, 2
				elapse(5 * time.Second)
				take := func(l stint.Limit, cost int64) {
					if d, err := n.takeOf(l, cost); err != nil || !d.Allowed {
						t.Errorf("%+v, %v", d, err)
					}
				}
				for _, l := range first {
					take(l, 1)
				}
				elapse(simTimeout) // until all servers have it
				n.setCut(lacks)
				take(slow, 2)
				n.setCut()
				s.servers[young].restart(false)
				if err := n.backend.tend(context.Background()); err != nil {
					t.Fatal(err)
				}
				elapse(12 * time.Second) // it is old enough for the short limit
				other.setCut(has)
				if h := other.takeN("k", simBurst+1, true, false); h.err != nil || h.allowed {
					t.Errorf("%+v", h)
				}
				elapse(simTimeout)
				if d, err := late.takeOf(slow, 2); err != nil || d.Allowed {
					t.Errorf("of %d units, %d were taken: %+v, %v", simBurst, len(first)+2, d, err)
				}
			})
		})
	}
}

// A limit got numbers of a lower class. A write that charges it reaches one server alone, and leaves a
// copy in the old class there. The writer settles the classes of its limits without that server, decides
// again, and is denied by another limit: no copy of its charge may be found later.
func TestNoCopyOfADeniedChargeIsFoundLater(t *testing.T) {
	t.Parallel()
	steadily(t, 5, 12*time.Hour, func(t *testing.T, s *simulation) {
		s.midWindow = 5 * time.Second
		n, other, late := s.nodes[0], s.nodes[1], s.nodes[2]
		const young, silent, alone = 0, 3, 4
		elapse(3 * time.Second)
		s.changed.Store(true)
		if h := n.takeN("k", 3, true, false); !h.allowed { // of class 8
			t.Fatalf("%+v", h)
		}
		s.changed.Store(false)
		s.servers[young].restart(false)
		if err := n.backend.tend(context.Background()); err != nil {
			t.Fatal(err)
		}
		elapse(12 * time.Second) // it is old enough for the other two limits
		n.take("other", true, false)
		other.take("other", true, false)
		other.setCut(alone)
		other.slow(silent, verbRead, verbPrepareNew, verbPrepare)
		for i := range alone {
			n.slow(i, verbAccept)
		}
		denied := make(chan *simTake)
		go func() { denied <- n.call(&simTake{key: "k", cost: 1, short: true, mid: true}) }()
		elapse(time.Millisecond)
		n.setCut(silent, alone)
		if h := other.call(&simTake{key: "k", cost: simMidLimit, mid: true}); !h.allowed {
			t.Errorf("the other process: %+v", h)
		}
		h := <-denied
		if h.err != nil || h.allowed || h.noShort || !h.noMid {
			t.Errorf("the call was not denied by the other limit: %+v", h)
		}
		late.setCut(1) // it needs the server that has the write
		if h := late.takeN("k", simBurst, true, false); !h.allowed {
			t.Errorf("after no unit was charged: %+v", h)
		}
	})
}

// The numbers of a limit are raised, so its state moves to a higher class. One server alone gets that
// write. Another process, which reads a young server, confirms the lower classes. The state must not be
// lost with them: with both numbers in use at once, and once the young server is old enough.
func TestAStateThatMovesUpIsInItsOldClassToo(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		before       string // units a second
		age, between time.Duration
		confirms     func(other *simNode, before stint.Limit)
		late         func(before, after stint.Limit) stint.Limit
	}{
		"both numbers at once": {"1", 12 * time.Second, 0,
			func(other *simNode, before stint.Limit) { _, _ = other.takeOf(before, simBurst) },
			func(before, _ stint.Limit) stint.Limit { return before }},
		"the new numbers alone": {"0.04", 255 * time.Second, 6 * time.Second,
			func(other *simNode, _ stint.Limit) { other.takeN("k", simBurst+1, true, false) },
			func(_, after stint.Limit) stint.Limit { return after }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			steadily(t, 3, 12*time.Hour, func(t *testing.T, s *simulation) {
				n, other, late := s.nodes[0], s.nodes[1], s.nodes[2]
				const young, alone, lacks = 0, 1, 2
				elapse(5 * time.Second)
				s.servers[young].restart(false)
				if err := n.backend.tend(context.Background()); err != nil {
					t.Fatal(err)
				}
				elapse(c.age)
				limit := func(rate string) stint.Limit {
					return simLimit(stint.Spec{Rule: "raised", Name: "raised", Capacity: simBurst, RefillRate: rate})
				}
				before, after := limit(c.before), limit("0.02")
				if d, err := other.takeOf(before, 3); err != nil || !d.Allowed {
					t.Fatal(d, err)
				}
				n.slow(young, verbRead, verbPrepareNew, verbPrepare, verbAccept)
				n.slow(lacks, verbAccept)
				go func() { _, _ = n.takeOf(after, 1) }()
				elapse(time.Millisecond)
				n.setCut(young, alone, lacks)
				other.setCut(lacks)
				c.confirms(other, before)
				elapse(c.between)
				late.setCut(alone)
				if d, err := late.takeOf(c.late(before, after), simBurst); err == nil && d.Allowed {
					t.Errorf("%d units more are allowed after 3 were: %+v", simBurst, d)
				}
			})
		})
	}
}

// takeOf takes units of one limit.
func (n *simNode) takeOf(l stint.Limit, cost int64) (stint.Decision, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*simTimeout)
	defer cancel()
	return n.store.Take(ctx, stint.Claim{Key: "k", Limit: l, Cost: cost})
}

// A state has moved to a higher class, and a copy of it is in the old one. Another charge misses one
// server. Another process reads that with a young one, which is old enough for the old class. It must not
// confirm the copy, which would be newer than the charge.
func TestACopyIsNotConfirmedOverItsState(t *testing.T) {
	t.Parallel()
	steadily(t, 3, 12*time.Hour, func(t *testing.T, s *simulation) {
		n, other, late := s.nodes[0], s.nodes[1], s.nodes[2]
		const young, has, lacks = 0, 1, 2
		elapse(5 * time.Second)
		limit := func(rate string) stint.Limit {
			return simLimit(stint.Spec{Rule: "raised", Name: "raised", Capacity: simBurst, RefillRate: rate})
		}
		before, after := limit("1"), limit("0.02")
		take := func(l stint.Limit, cost int64) {
			if d, err := n.takeOf(l, cost); err != nil || !d.Allowed {
				t.Errorf("%+v, %v", d, err)
			}
		}
		take(before, 1)
		take(after, 1)
		elapse(simTimeout) // until all servers have it
		n.setCut(lacks)
		take(after, simBurst-2)
		n.setCut()
		s.servers[young].restart(false)
		if err := n.backend.tend(context.Background()); err != nil {
			t.Fatal(err)
		}
		elapse(12 * time.Second)
		other.setCut(has)
		if h := other.takeN("k", simBurst+1, true, false); h.err != nil && !isYoung(h.err) {
			t.Errorf("%+v", h)
		}
		elapse(simTimeout)
		if d, err := late.takeOf(after, 2); err != nil || d.Allowed {
			t.Errorf("after all units were allowed: %+v, %v", d, err)
		}
	})
}

// A group of two keys loses one of them, and undoes the other. Its first read had an old state of a limit
// that its members are too young for, and that of the undoing has none: the undoing must not write that
// state, which would be newer than the charges of that limit since.
func TestAnUndoneWriteRestoresNoStateOfAHigherClass(t *testing.T) {
	t.Parallel()
	steadily(t, 5, 12*time.Hour, func(t *testing.T, s *simulation) {
		n, other, late := s.nodes[0], s.nodes[1], s.nodes[2]
		const has, old, none = 2, 3, 4 // the newest state, one of before, and none; 0 and 1 restart
		elapse(5 * time.Second)
		slow := simLimit(stint.Spec{Rule: "slow", Name: "slow", Capacity: simBurst, RefillRate: "0.02"})
		n.setCut(has, none)
		if d, err := n.takeOf(slow, 1); err != nil || !d.Allowed {
			t.Fatal(d, err)
		}
		late.setCut(old, none)
		if d, err := late.takeOf(slow, simBurst-1); err != nil || !d.Allowed {
			t.Fatal(d, err)
		}
		n.setCut()
		late.setCut()
		elapse(simTimeout)
		s.servers[0].restart(false)
		s.servers[1].restart(false)
		for range 2 {
			if err := n.backend.tend(context.Background()); err != nil {
				t.Fatal(err)
			}
		}
		elapse(12 * time.Second) // they are old enough for the short limit
		other.setCut(has, none)
		other.takeN("k", simBurst+1, true, false) // is denied, and has them agree
		other.setCut(has)
		other.slow(none, verbRead, verbPrepareNew)
		for _, i := range []int{0, 1, old} {
			other.slow(i, verbPrepare)
		}
		ended := make(chan struct{})
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), 5*simTimeout)
			defer cancel()
			claims := []stint.Claim{{Key: "k", Limit: simShort, Cost: 1}, {Key: "z", Limit: simShort, Cost: 1}}
			defer close(ended)
			_ = other.store.TakeGroups(ctx, []stint.Group{{Claims: claims}}, make([]stint.Decision, 2)) // it may be denied, or fail
		}()
		elapse(time.Millisecond)
		if h := late.take("z", true, false); !h.allowed {
			t.Fatalf("%+v", h)
		}
		other.setCut(has, old)
		<-ended
		if d, err := late.takeOf(slow, 2); err != nil || d.Allowed {
			t.Errorf("after all units were allowed: %+v, %v", d, err)
		}
	})
}

// A copy of a moved state is found by a young server and an old one, which answer first. The other old
// server is slower: it is waited for, as in a read of a long limit.
func TestASlowServerIsWaitedForWhereACopyIsFound(t *testing.T) {
	t.Parallel()
	steadily(t, 3, 12*time.Hour, func(t *testing.T, s *simulation) {
		n, other := s.nodes[0], s.nodes[1]
		elapse(5 * time.Second)
		for _, rate := range []string{"1", "0.02"} {
			l := simLimit(stint.Spec{Rule: "raised", Name: "raised", Capacity: simBurst, RefillRate: rate})
			if d, err := n.takeOf(l, 1); err != nil || !d.Allowed {
				t.Fatal(d, err)
			}
		}
		elapse(simTimeout)
		s.servers[0].restart(false)
		if err := n.backend.tend(context.Background()); err != nil {
			t.Fatal(err)
		}
		elapse(12 * time.Second)
		other.take("other", true, false)
		other.slow(2, verbRead, verbPrepareNew, verbPrepare)
		if h := other.take("k", true, false); !h.allowed {
			t.Errorf("with a majority of whole servers: %+v", h)
		}
	})
}
