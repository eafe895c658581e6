package failuretest

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/redistest"
	"github.com/stintdev/stint/lease"
	"github.com/stintdev/stint/redisstore"
)

// A network splits: the master and one node are on one side; its replicas, the sentinels
// and another node are on the other side. The sentinels promote a replica.
//
// With min-replicas-to-write 1 the old master refuses writes, so the limits hold over
// both sides. Without it, each side grants the whole limit while the network is split.
// The second case proves that the test detects a violation.
func TestSplitNetworkGrantsOnceWhereReplicasAreRequired(t *testing.T) {
	skipShort(t)
	for _, c := range []struct {
		minReplicas string
		holds       bool
	}{{"1", true}, {"0", false}} {
		t.Run("minReplicasToWrite"+c.minReplicas, func(t *testing.T) {
			for mode, s := range splitNetwork(t, c.minReplicas) {
				admitted, most := s.admitted.Load(), s.most()
				mode := []string{stint.Strict: "strict", stint.Leased: "leased", stint.Partitioned: "partitioned"}[mode]
				t.Logf("%s: %d admitted in %v, the bound is %d; %d on the side of the old master after the promotion", mode, admitted, s.took, most, s.late.Load())
				if holds := admitted <= most; holds != c.holds {
					t.Errorf("%s: %d were admitted in %v; that they are at most %d is %v", mode, admitted, s.took, most, holds)
				}
			}
		})
	}
}

// split counts the results of one key in a split network.
type split struct {
	claim    stint.Claim
	admitted atomic.Int64 // checks that either node admitted
	late     atomic.Int64 // by the side of the old master, after the promotion
	took     time.Duration
}

const (
	splitRate = 50 // checks a second
	splitTime = 8 * time.Second
)

// most returns the bound of the mode: C + r·t, and for a lease r·L more. The time is
// rounded up.
func (s *split) most() int64 {
	t := s.took
	if s.claim.Policy.Consistency == stint.Leased {
		t += lease.DefaultTime
	}
	return s.claim.Limit.Max() + splitRate*int64(t/time.Second+1)
}

func splitNetwork(t *testing.T, minReplicas string) map[stint.Consistency]*split {
	t.Helper()
	servers := redistest.Sentinel(t, "--requirepass", "pw", "--masterauth", "pw", "--min-replicas-to-write", minReplicas, "--min-replicas-max-lag", "1")
	for _, p := range servers.Servers {
		p.Must("ACL", "SETUSER", "node", "on", ">node", "~*", "+@all")
	}
	master := servers.Master()
	as := func(o redisstore.Options) *lease.Store {
		o.Username, o.Password = "node", "node"
		leased, err := lease.New(newNode(t, o, patient()), lease.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = leased.Close() })
		return leased
	}
	sides := []*lease.Store{as(single(master.Addr())), as(sentinel(servers))}
	keys := map[stint.Consistency]*split{}
	limit, err := stint.Spec{Rule: "split", Limit: splitRate, Window: time.Second, Capacity: 2 * splitRate}.Compile()
	if err != nil {
		t.Fatal(err)
	}
	for _, mode := range []stint.Consistency{stint.Strict, stint.Leased, stint.Partitioned} {
		c := stint.Claim{Key: fmt.Sprint(mode), Limit: limit, Cost: 1, Policy: stint.Policy{Consistency: mode, OnFailure: stint.FailClosed}}
		keys[mode] = &split{claim: c}
		for _, side := range sides {
			awaitAnswer(t, side, c)
		}
	}
	var promoted atomic.Bool
	var callers sync.WaitGroup
	stop, begun := make(chan struct{}), time.Now()
	for _, key := range keys {
		for i, side := range sides {
			callers.Go(func() { key.ask(side, i == 0, &promoted, stop) })
		}
	}
	<-time.After(2 * time.Second) // load before the split
	servers.CutOff(master)
	awaitPromotion(t, servers, master)
	promoted.Store(true)
	<-time.After(splitTime)
	close(stop)
	callers.Wait()
	for _, key := range keys {
		key.took = time.Since(begun)
	}
	return keys
}

// ask checks a key on a node until stop is closed.
func (s *split) ask(node *lease.Store, old bool, promoted *atomic.Bool, stop <-chan struct{}) {
	tick := time.NewTicker(4 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-stop:
			return
		}
		late := promoted.Load()
		if d, err := node.Take(context.Background(), s.claim); err == nil && d.Allowed {
			s.admitted.Add(1)
			if old && late {
				s.late.Add(1)
			}
		}
	}
}
