package quorumstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/redistest"
)

// cluster is three servers behind proxies, and three nodes that use them.
type cluster struct {
	*testing.T

	servers []*redistest.Process
	proxies []*redistest.Fault
	options Options
	nodes   []*Store
	load    *load
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{T: t}
	for range 3 {
		p := redistest.Server(t)
		f := redistest.Proxy(t, p.Addr())
		c.servers, c.proxies = append(c.servers, p), append(c.proxies, f)
		c.options.Servers = append(c.options.Servers, f.Addr())
	}
	c.options.Timeout = 500 * time.Millisecond
	c.options.Logger = slog.New(slog.NewTextHandler(t.Output(), nil))
	for range 3 {
		s, err := New(c.options)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		c.nodes = append(c.nodes, s)
	}
	c.recovered()
	return c
}

// recovered waits until each node knows that all servers answer and have all counts.
func (c *cluster) recovered() {
	c.Helper()
	redistest.Await(c, func() error {
		for i, n := range c.nodes {
			for _, s := range n.Stats().Servers {
				if !s.Up || !s.Whole {
					return fmt.Errorf("node %d: %+v", i, n.Stats().Servers)
				}
			}
		}
		return nil
	})
}

const loadLimit = 40 // of each key, in an hour

// load takes from the nodes at the same time: one key after the other, each until it is
// denied.
type load struct {
	decisions [3]atomic.Int64 // of each node
	stop      context.CancelFunc
	ended     sync.WaitGroup

	mu   sync.Mutex
	keys map[string]*loadKey
}

// loadKey is what became of the checks of a key.
type loadKey struct{ admitted, denied, unknown int }

func (c *cluster) start() *load {
	c.Helper()
	ctx, cancel := context.WithCancel(c.Context())
	l := &load{stop: cancel, keys: map[string]*loadKey{}}
	c.load = l
	for i, n := range c.nodes {
		for range 2 {
			l.ended.Go(func() { l.run(ctx, n, &l.decisions[i]) })
		}
	}
	return l
}

func (l *load) run(ctx context.Context, n *Store, decisions *atomic.Int64) {
	limit := stint.MustParseLimit(fmt.Sprintf("%d/h", loadLimit))
	for i := 0; ctx.Err() == nil; {
		key := fmt.Sprintf("key%d", i)
		bounded, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		d, err := n.Take(bounded, stint.Claim{Key: key, Limit: limit, Cost: 1})
		cancel()
		l.mu.Lock()
		k := l.keys[key]
		if k == nil {
			k = &loadKey{}
			l.keys[key] = k
		}
		switch {
		case err != nil:
			if stint.CodeOf(err) != stint.CodeUnavailable {
				k.unknown++
			}
		case d.Allowed:
			k.admitted++
		default:
			k.denied++
			i++
		}
		l.mu.Unlock()
		if err == nil {
			decisions.Add(1)
		}
	}
}

// goesOn checks that each node decides while the fault lasts.
func (l *load) goesOn(t *testing.T) {
	t.Helper()
	var before [3]int64
	for i := range before {
		before[i] = l.decisions[i].Load()
	}
	redistest.Await(t, func() error {
		for i := range before {
			if n := l.decisions[i].Load() - before[i]; n < 100 {
				return fmt.Errorf("node %d has made %d decisions", i, n)
			}
		}
		return nil
	})
}

// check ends the load. No key admitted more than its limit. A key that was exhausted
// admitted its limit, but for what calls with an unknown outcome may have charged.
func (l *load) check(t *testing.T) {
	t.Helper()
	l.stop()
	l.ended.Wait()
	exhausted := 0
	for key, k := range l.keys {
		if k.admitted > loadLimit {
			t.Errorf("%s: %d admitted of a limit of %d: %+v", key, k.admitted, loadLimit, k)
		}
		if k.denied > 0 {
			exhausted++
			if k.admitted+k.unknown < loadLimit {
				t.Errorf("%s: %+v, and a limit of %d: a call was charged twice, or an error charged", key, k, loadLimit)
			}
		}
	}
	if exhausted < 5 {
		t.Errorf("the load has exhausted %d keys", exhausted)
	}
	t.Logf("%d keys exhausted", exhausted)
}

// TestALimitSurvivesTheLossOfAServer does to one server under load from three nodes what may
// happen to it.
func TestALimitSurvivesTheLossOfAServer(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]func(c *cluster, l *load){
		"killed and empty": func(c *cluster, l *load) {
			c.servers[0].Kill()
			l.goesOn(c.T)
			c.servers[0].Restart()
		},
		"emptied": func(c *cluster, _ *load) { c.servers[1].Must("FLUSHALL") },
		"restarted at once": func(c *cluster, l *load) {
			for range 3 {
				c.servers[2].Restart()
				l.goesOn(c.T)
			}
		},
		"restarted from an old disk": func(c *cluster, l *load) {
			c.servers[0].Must("SAVE")
			l.goesOn(c.T)
			c.servers[0].Restart()
		},
		"frozen": func(c *cluster, l *load) {
			c.servers[1].Freeze()
			l.goesOn(c.T)
			c.servers[1].Thaw()
		},
		"cut off": func(c *cluster, l *load) {
			c.proxies[2].Partition()
			l.goesOn(c.T)
			c.proxies[2].Heal()
		},
		"held up": func(c *cluster, l *load) {
			for range 5 {
				c.proxies[0].Hold()
				l.goesOn(c.T)
				c.proxies[0].Heal()
				l.goesOn(c.T)
			}
		},
		"deaf in one direction": func(c *cluster, l *load) {
			c.proxies[1].DropReplies()
			l.goesOn(c.T)
			c.proxies[1].Heal()
		},
		"each in turn": func(c *cluster, l *load) {
			for i := range c.servers {
				c.servers[i].Restart()
				l.goesOn(c.T)
				c.recovered()
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t)
			l := c.start()
			l.goesOn(t)
			fault(c, l)
			l.goesOn(t)
			c.recovered()
			l.goesOn(t)
			l.check(t)
		})
	}
}

// takeOne takes one unit within a time.
func takeOne(t *testing.T, s *Store, key, limit string) (stint.Decision, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	return s.Take(ctx, stint.Claim{Key: key, Limit: stint.MustParseLimit(limit), Cost: 1})
}

// TestAServerWhoseClockIsOffIsLeftOut checks that the clock of a server that is ahead decides
// nothing, and that the others go on.
func TestAServerWhoseClockIsOffIsLeftOut(t *testing.T) {
	c := newCluster(t)
	c.servers[0].RestartWithClock(20 * time.Second)
	redistest.Await(t, func() error {
		_, err := takeOne(t, c.nodes[0], "k", "100/h")
		return err
	})
	for i, n := range c.nodes {
		d, err := takeOne(t, n, "k", "100/h")
		if err != nil || !d.Allowed || time.Until(time.UnixMicro(d.At)).Abs() > 5*time.Second {
			t.Errorf("node %d: %+v %v", i, d, err)
		}
	}
}

// TestWithoutAMajorityNothingIsDecided kills two servers of three, and gives the store two
// empty ones: limits that forget soon are counted again soon, others are refused.
func TestWithoutAMajorityNothingIsDecided(t *testing.T) {
	c := newCluster(t)
	if d, err := takeOne(t, c.nodes[0], "k", "1/h"); err != nil || !d.Allowed {
		t.Fatal(d, err)
	}
	c.servers[0].Kill()
	c.servers[1].Kill()
	_, err := takeOne(t, c.nodes[0], "k", "1/h")
	wantError(t, err, stint.CodeUnavailable, "quorum", "no majority of the 3 servers answers")
	c.servers[0].Restart()
	c.servers[1].Restart()
	redistest.Await(t, func() error {
		_, err := takeOne(t, c.nodes[1], "s", "1000/s")
		return err
	})
	_, err = takeOne(t, c.nodes[2], "k", "1/h")
	if e, ok := errors.AsType[*stint.Error](err); !ok || e.Code != stint.CodeUnavailable || e.Kind != KindYoung {
		t.Errorf("a limit of an hour: %v", err)
	}
}

// TestAQuorumIsFoundedOnce checks that servers of which one is not empty are no new quorum.
func TestAQuorumIsFoundedOnce(t *testing.T) {
	c := newCluster(t)
	if err := Init(t.Context(), c.options); err == nil || stint.CodeOf(err) != stint.CodeInvalid {
		t.Error("a quorum is founded again:", err)
	}
	other := c.options
	other.Prefix = "other"
	c.servers[1].Must("SET", "other:=k", "x")
	err := Init(t.Context(), other)
	if e, ok := errors.AsType[*stint.Error](err); !ok || e.Code != stint.CodeInvalid {
		t.Error(err)
	}
	c.servers[1].Must("DEL", "other:=k")
	if err := Init(t.Context(), other); err != nil {
		t.Error(err)
	}
}

// TestAnEmptyServerTakesAPlace puts an empty server in the place of another one, which is not asked
// any more and keeps no node of the old list going.
func TestAnEmptyServerTakesAPlace(t *testing.T) {
	c := newCluster(t)
	for range 3 {
		if _, err := takeOne(t, c.nodes[0], "k", "5/h"); err != nil {
			t.Fatal(err)
		}
	}
	fresh := redistest.Server(t)
	if err := Replace(t.Context(), c.options, c.options.Servers[0], fresh.Addr()); err != nil {
		t.Fatal(err)
	}
	if _, err := takeOne(t, c.nodes[0], "k", "5/h"); err == nil {
		t.Error("a node of the old list decides")
	}
	c.options.Servers = slices.Clone(c.options.Servers)
	c.options.Servers[0] = fresh.Addr()
	redistest.Await(t, func() error {
		_, err := Repair(t.Context(), c.options)
		return err
	})
	s, err := New(c.options)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	c.servers[1].Kill()
	for i := range 3 {
		if d, err := takeOne(t, s, "k", "5/h"); err != nil || d.Allowed != (i < 2) {
			t.Errorf("check %d: %+v %v", i, d, err)
		}
	}
}

// TestAStoreSaysWhyItHasNoMajority checks the errors of a quorum whose servers refuse it.
func TestAStoreSaysWhyItHasNoMajority(t *testing.T) {
	for name, c := range map[string]struct {
		options []string
		change  func(*Options)
		kind    stint.Kind
		text    string
	}{
		"wrong password": {[]string{"--requirepass", "right"}, func(o *Options) { o.Password = "wrong" }, "noauth", "STINT_STORE_PASSWORD_FILE"},
		"evicts":         {[]string{"--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"}, func(*Options) {}, "eviction", "noeviction"},
	} {
		t.Run(name, func(t *testing.T) {
			var o Options
			for range 3 {
				o.Servers = append(o.Servers, redistest.Server(t, c.options...).Addr())
			}
			c.change(&o)
			s, err := New(o)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			_, err = takeOne(t, s, "k", "1/h")
			wantError(t, err, stint.CodeUnavailable, c.kind, c.text)
		})
	}
}
