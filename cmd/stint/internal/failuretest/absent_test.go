package failuretest

import (
	"testing"
	"time"

	"github.com/stintdev/stint/internal/redistest"
	"github.com/stintdev/stint/redisstore"
)

// A node that starts while its store is down serves at once, and connects when the
// store comes up.
func TestStoreIsNotThereAtFirst(t *testing.T) {
	skipShort(t)
	t.Run("single", func(t *testing.T) {
		p := redistest.Server(t)
		measure(t, func(t *testing.T) *figures {
			p.Kill()
			return absent(t, single(p.Addr()), mostNormal, p.Restart)
		})
	})
	t.Run("sentinel", func(t *testing.T) {
		s := redistest.Sentinel(t)
		measure(t, func(t *testing.T) *figures {
			each(s.Watchers, (*redistest.Process).Kill)
			return absent(t, sentinel(s), mostNormal, func() { each(s.Watchers, (*redistest.Process).Restart) })
		})
	})
	t.Run("cluster", func(t *testing.T) {
		c := redistest.Cluster(t, 3, 0)
		measure(t, func(t *testing.T) *figures {
			each(c.Nodes, (*redistest.Process).Kill)
			f := absent(t, cluster(c), afterPromotion, func() {
				each(c.Nodes, (*redistest.Process).Restart)
				c.AwaitReady() // a starting Cluster refuses all commands for two seconds
			})
			f.openMost = 0 // the node tries the addresses in turn, each with its own breaker
			return f
		})
	})
}

func each(all []*redistest.Process, do func(*redistest.Process)) {
	for _, p := range all {
		do(p)
	}
}

// absent starts a node while its store is down, and then starts the store.
func absent(t *testing.T, o redisstore.Options, bar time.Duration, come func()) *figures {
	t.Helper()
	n := newNode(t, o, patient())
	begun := time.Now()
	l := start(t, n, claims(t)...)
	awaitOpen(t, n)
	l.await(t, 1000)
	come()
	came := time.Now()
	back := l.awaitNormal(t, came)
	samples, spans := l.stop(), n.changes.open()
	f := read(samples, spans, begun)
	f.normal, f.normalBar = back, bar
	checkPolicies(t, samples, spans)
	return f
}
