package failuretest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/guard"
	"github.com/stintdev/stint/internal/redistest"
	"github.com/stintdev/stint/redisstore"
)

// nodes is the number of nodes for which a node divides local limits.
const nodes = 4

// node is the store of one process, behind its guard.
type node struct {
	*guard.Store
	changes *changes
}

// newNode returns a node with the default deadline and breaker.
func newNode(t *testing.T, o redisstore.Options, g guard.Options) *node {
	t.Helper()
	n := &node{changes: &changes{}}
	g.Nodes, g.Observer = nodes, n.changes
	var err error
	if n.Store, err = guard.New(newStore(t, o), g); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = n.Close() })
	return n
}

// patient returns options of a node whose breaker ignores slow calls. On a busy host
// one call in a hundred takes 10 ms, whatever the store does, so only the test of slow
// calls measures them.
func patient() guard.Options {
	b := guard.DefaultBreaker()
	b.SlowRatio = 0
	return guard.Options{Breaker: &b}
}

func newStore(t *testing.T, o redisstore.Options) *redisstore.Store {
	t.Helper()
	store, err := redisstore.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return store
}

// awaitAnswer waits until a store answers a peek of a claim.
func awaitAnswer(t *testing.T, store stint.Store, c stint.Claim) (d stint.Decision) {
	t.Helper()
	c.Cost = 0
	redistest.Await(t, func() (err error) {
		if d, err = store.Take(t.Context(), c); err == nil && d.Degraded {
			return errors.New("the store does not answer yet")
		}
		return err
	})
	return d
}

func single(addr string) redisstore.Options { return redisstore.Options{Addrs: []string{addr}} }

func sentinel(s *redistest.SentinelServers) redisstore.Options {
	return redisstore.Options{Topology: redisstore.Sentinel, Addrs: s.Addrs(), Master: s.Name}
}

func cluster(c *redistest.ClusterServers) redisstore.Options {
	return redisstore.Options{Topology: redisstore.Cluster, Addrs: c.Addrs()}
}

// changes is an observer that records the changes of state of a node's breakers.
type changes struct {
	mu  sync.Mutex
	all []change // guarded by mu
}

type change struct {
	at              time.Time
	shard, from, to string
}

func (c *changes) Start(ctx context.Context, _ stint.Event) context.Context { return ctx }

func (c *changes) Observe(_ context.Context, e stint.Event) {
	if e.Kind != stint.EventBreaker {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, change{time.Now(), e.Shard, e.From, e.Result})
}

func (c *changes) last() change {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.all) == 0 {
		return change{}
	}
	return c.all[len(c.all)-1]
}

// span is a time during which a breaker was open.
type span struct{ from, to time.Time }

// refused reports whether a check was certainly not sent: a breaker was open from its
// start to its end.
func refused(open []span, s *sample) bool {
	end := s.begun.Add(s.took)
	return s.d.Degraded && slices.ContainsFunc(open, func(o span) bool { return !s.begun.Before(o.from) && end.Before(o.to) })
}

// open returns the spans in which a breaker was not closed, in order.
func (c *changes) open() (spans []span) {
	c.mu.Lock()
	defer c.mu.Unlock()
	latest := map[string]int{} // latest state of each shard
	for _, change := range c.all {
		switch {
		case change.from == "closed":
			latest[change.shard] = len(spans)
			spans = append(spans, span{change.at, change.at.Add(time.Hour)})
		case change.to == "closed":
			spans[latest[change.shard]].to = change.at
		}
	}
	return spans
}
