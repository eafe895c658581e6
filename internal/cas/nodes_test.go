package cas_test

import (
	"bytes"
	"context"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/guard"
	"github.com/stintdev/stint/internal/cas"
	"github.com/stintdev/stint/internal/cas/casmem"
	"github.com/stintdev/stint/lease"
	"github.com/stintdev/stint/storekit"
)

func TestNodesAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := casmem.NewServer(nil)
		var stores []*cas.Store
		for range 3 {
			stores = append(stores, newStore(t, casmem.New(server), cas.Options{Heartbeat: time.Second}))
		}
		if n := stores[0].NodeCount(); n != 1 {
			t.Errorf("%d nodes before the first heartbeat", n)
		}
		time.Sleep(2500 * time.Millisecond)
		for i, s := range stores {
			if n := s.NodeCount(); n != 3 || !s.Stats().Up {
				t.Errorf("node %d counts %d of 3 nodes: %+v", i, n, s.Stats())
			}
		}
		_ = stores[2].Close()
		time.Sleep(1100 * time.Millisecond)
		if n := stores[0].NodeCount(); n != 2 {
			t.Errorf("%d nodes after one has left", n)
		}
		server.Set("#", nil) // the announcements are lost
		time.Sleep(200 * time.Millisecond)
		if n := stores[0].NodeCount(); n != 2 {
			t.Errorf("%d nodes after the announcements were lost", n)
		}
	})
}

// A node remembers a new item from its first write while no other node has announced itself.
func TestLoneNodeRemembersNewItems(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := casmem.NewServer(nil)
		open := func() *cas.Store {
			return newStore(t, casmem.New(server), cas.Options{Heartbeat: time.Second, KeepNewAlone: true})
		}
		s := open()
		remembers := func(key string) bool {
			before := s.Stats().Remembered
			for range 2 {
				take(t, s, claim(key, "1000/d", 1))
			}
			return s.Stats().Remembered > before
		}
		time.Sleep(1500 * time.Millisecond)
		if !remembers("alone") {
			t.Error("a lone node does not remember a new item")
		}
		other := open()
		time.Sleep(1500 * time.Millisecond)
		if remembers("two") {
			t.Error("one of two nodes remembers a new item")
		}
		_ = other.Close()
		time.Sleep(1500 * time.Millisecond)
		if !remembers("alone again") {
			t.Error("a node that is alone again does not remember a new item")
		}
	})
}

// A node whose clock is off is noticed where the server has no clock. In a test the clock
// of a node is that of the process, so the announcement of another is written by hand.
func TestClocksOfNodesAreCompared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		server := casmem.NewServer(nil)
		s := newStore(t, casmem.New(server), cas.Options{Heartbeat: time.Second, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		announce := func(ahead time.Duration) {
			at := time.Now().Add(ahead)
			server.Set("#", []byte(`{"other":{"at":`+micros(at)+`,"until":`+micros(at.Add(5*time.Second))+`}}`))
			time.Sleep(time.Second)
		}
		time.Sleep(1500 * time.Millisecond)
		announce(0)
		announce(0)
		if skew := s.Stats().Clock.Skew; skew.Abs() > 100*time.Millisecond || log.Len() > 0 {
			t.Errorf("a skew of %v: %s", skew, log.String())
		}
		announce(4 * time.Second)
		if skew := s.Stats().Clock.Skew; skew < 3*time.Second || !strings.Contains(log.String(), "the clocks of the nodes differ") {
			t.Errorf("a skew of %v: %s", skew, log.String())
		}
	})
}

func micros(at time.Time) string { return strconv.FormatInt(at.UnixMicro(), 10) }

func TestSkewOfTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := casmem.NewServer(func() time.Time { return time.Now().Add(3 * time.Second) })
		s := newStore(t, casmem.New(server), cas.Options{Heartbeat: time.Second})
		time.Sleep(100 * time.Millisecond)
		if c := s.Stats().Clock; c.Skew != 3*time.Second || c.Measured.IsZero() {
			t.Errorf("%+v", c)
		}
		for _, m := range storekit.Metrics(s) {
			if m.Help == "" || len(m.Samples) == 0 {
				t.Errorf("%+v", m)
			}
		}
	})
}

// twoServers is a backend of two servers.
type twoServers struct {
	servers [2]*casmem.Backend
}

func newTwoServers() *twoServers {
	return &twoServers{[2]*casmem.Backend{casmem.New(casmem.NewServer(nil)), casmem.New(casmem.NewServer(nil))}}
}

func (b *twoServers) Shards() []string       { return []string{"first", "second"} }
func (b *twoServers) ShardOf(key string) int { return int(key[len(key)-1]) % 2 }
func (b *twoServers) Load(ctx context.Context, loads []cas.Load) (time.Time, error) {
	return b.servers[b.ShardOf(loads[0].Key)].Load(ctx, loads)
}

func (b *twoServers) Swap(ctx context.Context, swaps []cas.Swap) (time.Time, error) {
	return b.servers[b.ShardOf(swaps[0].Key)].Swap(ctx, swaps)
}

func TestShardsStopAlone(t *testing.T) {
	b := newTwoServers()
	s := newStore(t, b, cas.Options{})
	shards := s.Shards()
	even, odd := claim("k2", "10/h", 1), claim("k1", "10/h", 1)
	if shards.Of(&even) != "first" || shards.Of(&odd) != "second" {
		t.Fatalf("%q and %q", shards.Of(&even), shards.Of(&odd))
	}
	g := stint.Group{Claims: []stint.Claim{even, odd}}
	if err := s.TakeGroups(t.Context(), []stint.Group{g}, make([]stint.Decision, 2)); err != nil {
		t.Fatal(err)
	}
	shards.Stop("second")
	_, err := s.Take(t.Context(), odd)
	if code, kind := kindOf(err); code != stint.CodeUnavailable || kind != "stopped" {
		t.Error(err)
	}
	if d := take(t, s, even); d.Remaining != 8 || s.Stats().Up {
		t.Errorf("%d remain of 10, up: %v", d.Remaining, s.Stats().Up)
	}
	if err := shards.Probe(t.Context(), "second"); err != nil {
		t.Error(err)
	}
	b.servers[1].Befall(casmem.Faults{Fail: 1})
	if err := shards.Probe(t.Context(), "second"); err == nil {
		t.Error("a probe of a server that fails")
	}
	b.servers[1].Befall(casmem.Faults{})
	shards.Start("second")
	if d := take(t, s, odd); d.Remaining != 8 {
		t.Errorf("%d remain of 10", d.Remaining)
	}
	if err := shards.Probe(t.Context(), "third"); err != nil {
		t.Error(err)
	}
}

// The store works below package guard and package lease.
func TestUnderGuardAndLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := casmem.New(casmem.NewServer(nil))
		b.Befall(casmem.Faults{Delay: time.Millisecond})
		base := newStore(t, b, cas.Options{})
		guarded, err := guard.New(base, guard.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer guarded.Close()
		leased, err := lease.New(guarded, lease.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer leased.Close()
		c := claim("hot", "100000/h", 1)
		c.Policy.Consistency = stint.Leased
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				for range 500 {
					if d, err := leased.Take(t.Context(), c); err != nil || !d.Allowed || d.Degraded {
						t.Errorf("%+v %v", d, err)
						return
					}
					time.Sleep(time.Millisecond)
				}
			})
		}
		all.Wait()
		if writes := base.Stats().Swaps; writes == 0 || writes > 1000 {
			t.Errorf("%d writes for 4,000 leased checks", writes)
		}
		b.Befall(casmem.Faults{Fail: 1})
		c.Key, c.Policy = "cold", stint.Policy{OnFailure: stint.FailClosed}
		for range 100 {
			if d, err := leased.Take(t.Context(), c); err != nil || !d.Unavailable {
				t.Fatalf("%+v %v", d, err)
			}
		}
		if guarded.Up() {
			t.Error("the breaker is closed")
		}
		b.Befall(casmem.Faults{})
		time.Sleep(5 * time.Second)
		if d, err := leased.Take(t.Context(), c); err != nil || !d.Allowed || d.Degraded {
			t.Errorf("after the recovery: %+v %v", d, err)
		}
	})
}
