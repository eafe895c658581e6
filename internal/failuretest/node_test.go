package failuretest

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/guard"
	"github.com/stintdev/stint/internal/redistest"
	"github.com/stintdev/stint/redisstore"
	"github.com/stintdev/stint/resilience/breaker"
)

// nodes is how many nodes a node believes to be one of.
const nodes = 4

// node is what one process of a fleet decides by.
type node struct {
	*guard.Store
	changes *changes
}

// newNode makes a node with the deadline and the breaker that nodes have. Only
// a test about slow calls judges them by the p99: on a busy host, one call in a
// hundred takes 10 ms whatever the store does.
func newNode(t *testing.T, o redisstore.Options, slow bool) *node {
	t.Helper()
	store, err := redisstore.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	n := &node{changes: &changes{}}
	judged := guard.DefaultBreaker()
	if !slow {
		judged.SlowRatio = 0
	}
	n.Store, err = guard.New(store, guard.Options{Nodes: nodes, Breaker: &judged, OnChange: n.changes.note})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = n.Close() })
	return n
}

// ready waits until the node's store answers a claim.
func (n *node) ready(t *testing.T, c stint.Claim) {
	t.Helper()
	c.Cost = 0
	redistest.Await(t, func() error {
		d, err := n.Take(t.Context(), c)
		if err == nil && d.Degraded {
			return fmt.Errorf("the store does not answer yet: %+v", n.changes.last())
		}
		return err
	})
}

func single(addr string) redisstore.Options { return redisstore.Options{Addrs: []string{addr}} }

func sentinel(s *redistest.SentinelServers) redisstore.Options {
	return redisstore.Options{Topology: redisstore.Sentinel, Addrs: s.Addrs(), Master: s.Name}
}

func cluster(c *redistest.ClusterServers) redisstore.Options {
	return redisstore.Options{Topology: redisstore.Cluster, Addrs: c.Addrs()}
}

// changes is the states that the breakers of a node went through.
type changes struct {
	mu  sync.Mutex
	all []change // guarded by mu
}

type change struct {
	at    time.Time
	shard string
	breaker.Change
}

func (c *changes) note(shard string, b breaker.Change) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, change{time.Now(), shard, b})
}

func (c *changes) last() change {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.all) == 0 {
		return change{}
	}
	return c.all[len(c.all)-1]
}

// span is a time in which a breaker let nothing through.
type span struct{ from, to time.Time }

func (s span) has(t time.Time) bool { return !t.Before(s.from) && t.Before(s.to) }

// open is the spans in which a breaker was not closed, in order.
func (c *changes) open() (spans []span) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, change := range c.all {
		switch {
		case change.From == breaker.Closed:
			spans = append(spans, span{change.at, change.at.Add(time.Hour)})
		case change.To == breaker.Closed:
			spans[len(spans)-1].to = change.at
		}
	}
	return spans
}
