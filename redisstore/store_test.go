package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/coalesce"
	"github.com/stintdev/stint/internal/redistest"
)

// open returns a store that is closed with the test.
func open(t testing.TB, o Options) *Store {
	t.Helper()
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// attempts takes a claim many times on many goroutines and returns how many
// were allowed.
func attempts(t *testing.T, goroutines, each int, s stint.Store, c stint.Claim) int64 {
	t.Helper()
	var allowed atomic.Int64
	var wg sync.WaitGroup
	for range goroutines {
		wg.Go(func() {
			for range each {
				d, err := s.Take(context.Background(), c)
				if err != nil {
					t.Error(err)
					return
				}
				if d.Allowed {
					allowed.Add(1)
				}
			}
		})
	}
	wg.Wait()
	return allowed.Load()
}

func perHour(t testing.TB, n int64) stint.Limit {
	t.Helper()
	l, err := stint.Spec{Algorithm: stint.FixedWindow, Limit: n, Window: 400 * 24 * time.Hour}.Compile()
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestOneHotKeyAdmitsItsLimit(t *testing.T) {
	s := open(t, Options{Addrs: []string{redistest.Server(t).Addr()}})
	for _, cost := range []int64{1, 3} {
		eachWay(t, 1000*cost, func(t *testing.T, l stint.Limit) {
			c := stint.Claim{Key: "hot", Limit: l, Cost: cost}
			for _, callers := range []int{1, 3, 64} {
				if err := forget(s, c); err != nil {
					t.Fatal(err)
				}
				if n := attempts(t, callers, 3200/callers, s, c); n != 1000 {
					t.Errorf("%d callers at cost %d: %d of 3200 were allowed, want 1000", callers, cost, n)
				}
			}
		})
	}
}

// eachWay tests limits whose checks can be singles, if their context allows it, and a
// limit whose checks cannot.
func eachWay(t *testing.T, n int64, test func(*testing.T, stint.Limit)) {
	t.Helper()
	for _, a := range []stint.Algorithm{stint.TokenBucket, stint.FixedWindow, stint.SlidingWindowCounter} {
		t.Run(a.String(), func(t *testing.T) { test(t, named(t, a.String(), a, n)) })
	}
}

func forget(s stint.Store, c stint.Claim) error {
	c.Cost = stint.Forget
	_, err := s.Take(context.Background(), c)
	return err
}

// inFlight returns the number of batches in flight to the only server.
func (s *Store) inFlight() int { return s.topology.nodeOf(0).batchers[0].Load().InFlight() }

func await(t *testing.T, happened func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(10 * time.Second); !happened(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatal("the condition did not become true")
		}
	}
}

// Equal checks that share a line are served in the order of their arrival: Remaining falls
// by one from check to check.
func TestHotKeyIsServedInOrder(t *testing.T) {
	server := redistest.Server(t)
	s := open(t, Options{Addrs: []string{server.Addr()}})
	c := stint.Claim{Key: "hot", Limit: perHour(t, 40), Cost: 1}
	if _, err := s.Take(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	await(t, func() bool { return s.inFlight() == 0 }) // its goroutine does not yield for others either
	server.Freeze()
	for i := range coalesce.MaxInFlight { // later calls are queued
		c := stint.Claim{Key: fmt.Sprint(i), Limit: c.Limit, Cost: 1}
		go func() { _, _ = s.Take(t.Context(), c) }()
	}
	await(t, func() bool { return s.inFlight() == coalesce.MaxInFlight })
	var calls []*pending
	for range 60 {
		q := s.calls.get()
		q.addOne(&c)
		s.batcherOf(q.slot, q.replicas).Send(t.Context(), &q.Call, false)
		calls = append(calls, q)
	}
	server.Thaw()
	for i, q := range calls {
		if err := s.calls.await(t.Context(), q); err != nil {
			t.Fatal(err)
		}
		if d, want := q.out[0], int64(max(0, 38-i)); d.Remaining != want || d.Allowed != (i < 39) || q.errs[0] != nil {
			t.Fatalf("check %d: allowed %v, %d remain, %v; want %d", i, d.Allowed, d.Remaining, q.errs[0], want)
		}
	}
}

// wasUnsent reports whether an error says that nothing was sent.
func wasUnsent(err error) bool { return strings.Contains(err.Error(), "before the check was sent") }

// A check that leaves the queue is not charged. A check whose caller leaves while it is in
// flight is charged at most once.
func TestFrozenServerChargesOnlyWhatWasSent(t *testing.T) {
	eachWay(t, 1000, frozenServerChargesOnlyWhatWasSent)
}

func frozenServerChargesOnlyWhatWasSent(t *testing.T, l stint.Limit) {
	server := redistest.Server(t)
	s := open(t, Options{Addrs: []string{server.Addr()}, Timeout: time.Minute})
	c := stint.Claim{Key: "frozen", Limit: l, Cost: 1}
	if _, err := s.Take(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	await(t, func() bool { return s.inFlight() == 0 })
	server.Freeze()
	var unsent atomic.Int64
	var wg sync.WaitGroup
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	for range 100 {
		wg.Go(func() {
			_, err := s.Take(ctx, c)
			var e *stint.Error
			if !errors.As(err, &e) || e.Code != stint.CodeTimeout {
				t.Errorf("a frozen server answered %v", err)
			} else if wasUnsent(err) {
				unsent.Add(1)
			}
		})
	}
	wg.Wait()
	server.Thaw()
	c.Cost = 0
	d, err := s.Take(t.Context(), c)
	if charged := 1000 - d.Remaining; err != nil || charged > 1+coalesce.MaxInFlight || unsent.Load() != 100-coalesce.MaxInFlight {
		t.Errorf("%d checks were charged (%v); one before, and %d of 100 were never sent", charged, err, unsent.Load())
	}
}

func TestCloseEndsQueuedChecks(t *testing.T) {
	server := redistest.Server(t)
	s := open(t, Options{Addrs: []string{server.Addr()}, Timeout: time.Minute})
	c := stint.Claim{Key: "a", Limit: perHour(t, 10), Cost: 1}
	if _, err := s.Take(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	server.Freeze()
	var wg sync.WaitGroup
	for range 20 {
		q := s.calls.get()
		q.addOne(&c)
		s.batcherOf(q.slot, q.replicas).Send(t.Context(), &q.Call, false)
		wg.Go(func() {
			if err := s.calls.await(t.Context(), q); err != nil || q.errs[0] == nil {
				t.Errorf("a check on a closed store ended with %v, %v", err, q.errs[0])
			}
		})
	}
	_ = s.Close()
	wg.Wait()
	var e *stint.Error
	if _, err := s.Take(t.Context(), c); !errors.As(err, &e) || e.Code != stint.CodeUnavailable {
		t.Errorf("a closed store answered %v", err)
	}
}

// A charge that too few replicas confirm is an error, and stands. A check that charges
// nothing needs no replica.
func TestOnlyChargesNeedReplicas(t *testing.T) {
	eachWay(t, 1, onlyWhatIsChargedNeedsReplicas)
}

func onlyWhatIsChargedNeedsReplicas(t *testing.T, l stint.Limit) {
	s := open(t, Options{Addrs: []string{redistest.Server(t).Addr()}, ReplicaTimeout: time.Millisecond})
	c := stint.Claim{Key: "a", Limit: l, Cost: 1, Policy: stint.Policy{Replicas: 1}}
	peek := c
	peek.Cost = 0
	for _, step := range []struct {
		what      string
		claim     stint.Claim
		allowed   bool
		remaining int64
		kind      stint.Kind
	}{
		{"a peek", peek, true, 1, ""},
		{"a charge", c, false, 0, "replicas"},
		{"a denial", c, false, 0, ""},
		{"a peek afterwards", peek, true, 0, ""},
	} {
		d, err := s.Take(context.Background(), step.claim)
		var e *stint.Error
		if errors.As(err, &e) != (step.kind != "") || e != nil && e.Kind != step.kind || d.Allowed != step.allowed || d.Remaining != step.remaining {
			t.Errorf("%s: %+v, %v", step.what, d, err)
		}
	}
}

// Groups of many claims are sent in several batches and decided in order.
func TestManyGroupsAreDecidedInOrder(t *testing.T) {
	s := open(t, Options{Addrs: []string{redistest.Server(t).Addr()}})
	limit := perHour(t, 5*maxLines)
	var groups []stint.Group
	out := make([]stint.Decision, 3*maxLines)
	for i := range out {
		g := groupOf(limit, "many")
		if i%5 == 4 {
			last := &groups[len(groups)-1]
			last.Shadows = append(last.Shadows, g.Claims)
		} else {
			groups = append(groups, g)
		}
	}
	if err := s.TakeGroups(t.Context(), groups, out); err != nil {
		t.Fatal(err)
	}
	for i, d := range out {
		if !d.Allowed || d.Remaining != limit.Max()-1-int64(i) {
			t.Fatalf("group %d: allowed %v, %d remain", i, d.Allowed, d.Remaining)
		}
	}
}

// Calls that were sent to a frozen server run when it thaws. A connection without an answer
// in time is closed, and nothing is sent on a new one before the server has answered its
// greeting.
func TestFrozenServerGetsNoMoreThanTheBatchesInFlight(t *testing.T) {
	eachWay(t, 100, frozenServerGetsNoMoreThanItsFlights)
}

func frozenServerGetsNoMoreThanItsFlights(t *testing.T, l stint.Limit) {
	server := redistest.Server(t)
	s := open(t, Options{Addrs: []string{server.Addr()}})
	c := stint.Claim{Key: "frozen", Limit: l, Cost: 1}
	if _, err := s.Take(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	await(t, func() bool { return s.inFlight() == 0 })
	server.Freeze()
	for range 10 {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		if _, err := s.Take(ctx, c); err == nil {
			t.Error("a frozen server answered")
		}
		cancel()
	}
	server.Thaw()
	await(t, func() bool {
		_, err := s.Take(t.Context(), stint.Claim{Key: "thawed", Limit: c.Limit})
		return err == nil
	})
	if charged := 100 - remaining(t, s, c.Limit, c.Key); charged > 1+coalesce.MaxInFlight {
		t.Errorf("a frozen server was sent %d checks of 10", charged-1)
	}
}

func TestCallerThatGivesUpLeavesAFrozenServerAtOnce(t *testing.T) {
	eachWay(t, 100, callerThatGivesUpLeavesAFrozenServerAtOnce)
}

func callerThatGivesUpLeavesAFrozenServerAtOnce(t *testing.T, l stint.Limit) {
	server := redistest.Server(t)
	s := open(t, Options{Addrs: []string{server.Addr()}, Timeout: time.Minute})
	c := stint.Claim{Key: "frozen", Limit: l, Cost: 1}
	if _, err := s.Take(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	server.Freeze()
	defer server.Thaw()
	for _, timeout := range []time.Duration{0, time.Hour} {
		ctx, cancel := context.WithCancel(t.Context())
		if timeout > 0 {
			ctx, cancel = context.WithTimeout(t.Context(), timeout)
		}
		time.AfterFunc(10*time.Millisecond, cancel)
		start := time.Now()
		_, err := s.Take(ctx, c)
		var e *stint.Error
		if took := time.Since(start); !errors.As(err, &e) || e.Code != stint.CodeCanceled || took > 10*time.Second {
			t.Errorf("left after %v with %v", took, err)
		}
	}
}

// Concurrent callers of one leaky bucket with different greatest delays are decided each by
// its own delay.
func TestCallersTogetherKeepTheirGreatestDelays(t *testing.T) {
	store := open(t, Options{Addrs: []string{redistest.Server(t).Addr()}, Timeout: ample})
	limit := limitOf(t, stint.Spec{Algorithm: stint.LeakyBucket, Limit: 1, Window: time.Minute, Queue: 10_000})
	if _, err := store.Take(t.Context(), stint.Claim{Key: "k", Limit: limit, Cost: 10}); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for i := range 400 {
		c := stint.Claim{Key: "k", Limit: limit, Cost: 1, MaxDelay: []time.Duration{0, -1, time.Minute, 1000 * time.Hour}[i%4]}
		wg.Go(func() {
			d, err := store.Take(t.Context(), c)
			if wants := i%4 == 0 || i%4 == 3; err != nil || d.Allowed != wants {
				t.Errorf("with a greatest delay of %v: %+v, %v", c.MaxDelay, d, err)
			}
		})
	}
	wg.Wait()
	peek, err := store.Take(t.Context(), stint.Claim{Key: "k", Limit: limit})
	if want := int64(10_001 - 10 - 200); err != nil || peek.Remaining != want {
		t.Errorf("%d remain, %v; want %d", peek.Remaining, err, want)
	}
}
