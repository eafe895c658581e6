package postgresstore

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
	"github.com/stintdev/stint/internal/pgtest"
	"github.com/stintdev/stint/internal/redistest"
	"github.com/stintdev/stint/storekit"
)

// openStore returns a store at an address.
func openStore(t *testing.T, address string) *Store {
	t.Helper()
	o, err := ParseURL(address)
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// tally counts the checks of several nodes on one key.
type tally struct{ admitted, failed atomic.Int64 }

func (c *tally) take(s *Store, claim stint.Claim) {
	ctx, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond)
	defer cancel()
	d, err := s.Take(ctx, claim)
	switch {
	case err != nil:
		c.failed.Add(1)
	case d.Allowed:
		c.admitted.Add(1)
	}
}

// Three nodes share one hot key while the server freezes, connections break, and answers are
// lost. No more is admitted than the limit, and no more charged than was admitted or failed.
func TestFaultsNeverAdmitTooMuch(t *testing.T) {
	s := pgtest.Start(t)
	proxy := redistest.Proxy(t, s.Addr())
	pooler := s.PgBouncer()
	nodes := []*Store{
		openStore(t, withPassword(s.URL())),
		openStore(t, strings.Replace(withPassword(s.URL()), s.Addr(), proxy.Addr(), 1)),
		openStore(t, withPassword(pooler.URL())),
	}
	const limit = 3000
	claim := stint.Claim{Key: "hot", Limit: stint.MustParseLimit(fmt.Sprint(limit, "/d")), Cost: 1}
	comesBack(t, nodes[0].backend)
	begun := time.Now()
	var c tally
	var callers sync.WaitGroup
	stop := make(chan struct{})
	for i := range 24 {
		callers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					c.take(nodes[i%3], claim)
				}
			}
		})
	}
	progress := func() {
		t.Helper()
		before := c.admitted.Load()
		redistest.Await(t, func() error {
			if n := c.admitted.Load(); n < before+50 && n < limit {
				return errors.New("nothing is admitted")
			}
			return nil
		})
	}
	for range 2 {
		progress()
		proxy.DropReplies()
		progress()
		proxy.Heal()
		s.Freeze()
		failed := c.failed.Load()
		redistest.Await(t, func() error {
			if c.failed.Load() == failed {
				return errors.New("no check fails")
			}
			return nil
		})
		s.Thaw()
		progress()
		proxy.Cut()
	}
	progress()
	close(stop)
	callers.Wait()
	claim.Cost = 0
	d, err := nodes[0].Take(t.Context(), claim)
	if err != nil {
		t.Fatal(err)
	}
	admitted, failed, charged := c.admitted.Load(), c.failed.Load(), limit-d.Remaining
	t.Logf("%d admitted, %d failed, %d charged", admitted, failed, charged)
	refilled := 1 + int64(time.Since(begun)*limit/(24*time.Hour)) // at most
	if charged < admitted-refilled || charged > admitted+failed || admitted > limit+refilled {
		t.Errorf("%d are charged, %d were admitted and %d failed", charged, admitted, failed)
	}
}

func TestGroupsOfSeveralKeysAreWhole(t *testing.T) {
	s := pgtest.Start(t)
	nodes := []*Store{openStore(t, withPassword(s.URL())), openStore(t, withPassword(s.PgBouncer().URL()))}
	limit := stint.MustParseLimit("100/d")
	comesBack(t, nodes[0].backend)
	var whole atomic.Int64
	var callers sync.WaitGroup
	for i := range 8 {
		callers.Go(func() {
			for j := range 20 {
				claims := []stint.Claim{{Key: "a", Limit: limit, Cost: 1}, {Key: "b", Limit: limit, Cost: 1}}
				if j%2 == 0 {
					claims[0], claims[1] = claims[1], claims[0]
				}
				out := make([]stint.Decision, 2)
				if err := nodes[i%2].TakeGroups(context.Background(), []stint.Group{{Claims: claims}}, out); err != nil && stint.CodeOf(err) != stint.CodeContended {
					t.Error(err)
				}
				if out[0].Allowed && out[1].Allowed {
					whole.Add(1)
				}
			}
		})
	}
	callers.Wait()
	for _, key := range []string{"a", "b"} {
		d, err := nodes[0].Take(t.Context(), stint.Claim{Key: key, Limit: limit})
		if err != nil || 100-d.Remaining != whole.Load() {
			t.Errorf("%s: %d remain after %d groups: %v", key, d.Remaining, whole.Load(), err)
		}
	}
}

func TestNodesAreCountedAndClocksCompared(t *testing.T) {
	s := pgtest.Start(t)
	one, two := openStore(t, withPassword(s.URL())), openStore(t, withPassword(s.URL()))
	redistest.Await(t, func() error {
		for _, store := range []*Store{one, two} {
			if st := store.Stats(); st.Nodes != 2 || !st.Up || st.Measured.IsZero() || st.Skew.Abs() > time.Minute {
				return fmt.Errorf("%+v", st)
			}
		}
		return nil
	})
	if err := two.Close(); err != nil {
		t.Error(err)
	}
	redistest.Await(t, func() error {
		if n := one.NodeCount(); n != 1 {
			return fmt.Errorf("%d nodes", n)
		}
		return nil
	})
	if _, err := two.Take(t.Context(), stint.Claim{Key: "k", Limit: stint.MustParseLimit("1/s"), Cost: 1}); stint.CodeOf(err) != stint.CodeUnavailable {
		t.Error(err)
	}
	if metrics := storekit.Metrics(one); len(metrics) == 0 {
		t.Error("no metrics")
	}
}

func TestClearDeletesThePrefix(t *testing.T) {
	s := pgtest.Start(t)
	limit := stint.MustParseLimit("5/h")
	var stores []*Store
	for _, prefix := range []string{"stint", "stint:replay:1", "stint:replay:10"} {
		o, err := ParseURL(withPassword(s.URL()))
		if err != nil {
			t.Fatal(err)
		}
		o.Prefix, o.Timeout = prefix, 10*time.Second
		store, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = store.Close() })
		if _, err := store.Take(t.Context(), stint.Claim{Key: "k", Limit: limit, Cost: 1}); err != nil {
			t.Fatal(err)
		}
		stores = append(stores, store)
	}
	for _, c := range []struct {
		clears int
		want   []int64
	}{{1, []int64{4, 5, 4}}, {0, []int64{5, 5, 4}}} {
		if err := stores[c.clears].Clear(t.Context()); err != nil {
			t.Fatal(err)
		}
		for i, want := range c.want {
			if d, err := stores[i].Take(t.Context(), stint.Claim{Key: "k", Limit: limit}); err != nil || d.Remaining != want {
				t.Errorf("%s: %d remain, want %d: %v", stores[i].options.Prefix, d.Remaining, want, err)
			}
		}
	}
}

func TestZeroValues(t *testing.T) {
	for _, s := range []*Store{nil, {}} {
		_, err := s.Take(t.Context(), stint.Claim{})
		for _, err := range []error{err, s.TakeGroups(t.Context(), nil, nil), s.Clear(t.Context())} {
			if !errors.Is(err, errNotMade) {
				t.Error(err)
			}
		}
		if s.Close() != nil || s.String() != "postgresstore: none" || s.NodeCount() != 1 || s.Stats() != (Stats{}) || s.Metrics() != nil {
			t.Error(s)
		}
	}
	if _, err := New(Options{}); stint.CodeOf(err) != stint.CodeInvalid {
		t.Error(err)
	}
}
