package redisstore

import (
	"testing"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/redistest"
)

// ample is longer than replicas take on the busiest machine.
const ample = 20 * time.Second

func TestCallWaitsForReplicas(t *testing.T) {
	servers := redistest.Sentinel(t)
	top := newTestTopology(t, Options{Addrs: []string{servers.Master().Addr()}, Timeout: ample, ReplicaTimeout: ample})
	calls := []invocation{{script: counting, keys: []string{"k"}, args: []string{"1"}, replicas: 2}}
	replies := make([]reply, 1)
	for range 20 {
		top.nodeOf(0).call(t.Context(), calls, replies)
		if replies[0].err != nil || replies[0].acked != 2 {
			t.Fatal(replies[0])
		}
		for _, p := range servers.Servers {
			if got := p.Must("GET", "k"); got != replies[0].data {
				t.Fatalf("%s has %s when the call for 2 replicas answers %s", p.Addr(), got, replies[0].data)
			}
		}
	}
}

func TestReplicasThatDoNotAnswerAreNotCounted(t *testing.T) {
	servers := redistest.Sentinel(t)
	master := servers.Master()
	top := newTestTopology(t, Options{Addrs: []string{master.Addr()}, ReplicaTimeout: 50 * time.Millisecond})
	for _, p := range servers.Servers {
		if p != master {
			p.Freeze()
			defer p.Thaw()
		}
	}
	calls := []invocation{{script: counting, keys: []string{"k"}, args: []string{"1"}, replicas: 1}}
	replies := make([]reply, 1)
	top.nodeOf(0).call(t.Context(), calls, replies)
	if replies[0].err != nil || replies[0].acked != 0 || replies[0].data != "1" {
		t.Error(replies[0])
	}
	if got := master.Must("GET", "k"); got != "1" {
		t.Error("the charge does not stand:", got)
	}
}

func TestLostScriptIsSentAgainAndStillWaitedFor(t *testing.T) {
	servers := redistest.Sentinel(t)
	master := servers.Master()
	top := newTestTopology(t, Options{Addrs: []string{master.Addr()}, Timeout: ample, ReplicaTimeout: ample})
	if _, err := count(t, top, "k"); err != nil {
		t.Fatal(err)
	}
	master.Must("SCRIPT", "FLUSH")
	one := invocation{script: counting, keys: []string{"k"}, args: []string{"1"}, replicas: 2}
	replies := make([]reply, 2)
	top.nodeOf(0).call(t.Context(), []invocation{one, one}, replies)
	for i, want := range []string{"2", "3"} {
		if r := replies[i]; r.err != nil || r.data != want || r.acked != 2 {
			t.Error(i, r)
		}
	}
}

func TestChargeThatTooFewReplicasHaveStands(t *testing.T) {
	servers := redistest.Sentinel(t)
	claim := stint.Claim{Key: "k", Limit: perHour(t, 10), Cost: 1}
	for _, c := range []struct {
		replicas  uint8
		waits     time.Duration
		kind      string
		remaining int64 // by the answer to a peek
	}{{2, ample, "", 9}, {3, 50 * time.Millisecond, "replicas", 8}, {0, ample, "", 7}} {
		store := open(t, Options{Topology: Sentinel, Addrs: servers.Addrs(), Master: servers.Name, Timeout: ample, ReplicaTimeout: c.waits})
		claim.Policy.Replicas = c.replicas
		_, err := store.Take(t.Context(), claim)
		if c.kind != "" {
			wantError(t, err, stint.CodeUnavailable, c.kind)
		} else if err != nil {
			t.Fatal(err)
		}
		d, err := store.Take(t.Context(), stint.Claim{Key: "k", Limit: claim.Limit})
		if err != nil || d.Remaining != c.remaining {
			t.Errorf("%d replicas asked for: %d remain, %v; want %d", c.replicas, d.Remaining, err, c.remaining)
		}
	}
}
