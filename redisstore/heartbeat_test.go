package redisstore

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stintdev/stint/internal/redistest"
)

const testBeat = 20 * time.Millisecond

func TestNodesCountEachOther(t *testing.T) {
	server := redistest.Server(t)
	o := Options{Addrs: []string{server.Addr()}, Heartbeat: testBeat}
	stores := []*Store{open(t, o), open(t, o), open(t, o)}
	counted := func(want int, of ...*Store) func() bool {
		return func() bool {
			for _, s := range of {
				if s.NodeCount() != want || s.Stats().Nodes != want {
					return false
				}
			}
			return true
		}
	}
	eventually(t, "each counts three", counted(3, stores...))
	if err := stores[0].Close(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "one that closes is gone", counted(2, stores[1:]...))
	stores[1].Stop("") // as if its machine had failed
	eventually(t, "one that falls silent is gone", counted(1, stores[2]))
	if n := stores[1].NodeCount(); n != 2 {
		t.Errorf("while the store cannot be reached a node counts %d; want the last count, 2", n)
	}
	stores[1].Start("")
	eventually(t, "one that comes back counts again", counted(2, stores[1:]...))
	if another := open(t, Options{Addrs: o.Addrs, Heartbeat: testBeat, Prefix: "other"}); another.NodeCount() > 1 {
		t.Error("a node under another prefix was counted")
	}
}

// A store that lost its data knows only the nodes that have announced themselves since.
func TestSmallerCountIsAdoptedLate(t *testing.T) {
	server := redistest.Server(t)
	o := Options{Addrs: []string{server.Addr()}, Heartbeat: time.Hour} // the test beats by hand
	one, two := open(t, o), open(t, o)
	eventually(t, "both are announced", func() bool { return one.Stats().Nodes > 0 && two.Stats().Nodes > 0 })
	one.topology.heartbeat.beat(t.Context())
	server.Must("FLUSHALL")
	for n := range beatsMissed {
		one.topology.heartbeat.beat(t.Context())
		if got := one.NodeCount(); got != 2 {
			t.Fatalf("beat %d after the store forgot all nodes: counts %d; want the 2 that it knew", n+1, got)
		}
	}
	one.topology.heartbeat.beat(t.Context())
	if got := one.NodeCount(); got != 1 {
		t.Errorf("the other stays silent: counts %d; want 1", got)
	}
}

func TestNodesOfAClusterCountEachOther(t *testing.T) {
	servers := redistest.Cluster(t, 3, 0)
	o := Options{Topology: Cluster, Addrs: servers.Addrs()[:1], Heartbeat: testBeat}
	one, two := open(t, o), open(t, o)
	eventually(t, "both count two", func() bool { return one.NodeCount() == 2 && two.NodeCount() == 2 })
}

func TestNodeCountsAtLeastItself(t *testing.T) {
	store := open(t, Options{Addrs: []string{"127.0.0.1:1"}})
	if n := store.NodeCount(); n != 1 {
		t.Error(n)
	}
	if s := store.Stats(); s.Nodes != 0 || s.Up {
		t.Errorf("%+v", s)
	}
}

func TestClosedNodesLeaveNoKey(t *testing.T) {
	server := redistest.Server(t)
	store := open(t, Options{Addrs: []string{server.Addr()}, Heartbeat: testBeat})
	eventually(t, "it is announced", func() bool { return server.Must("EXISTS", "stint:nodes") == "1" })
	if ttl := server.Must("PTTL", "stint:nodes"); strings.HasPrefix(ttl, "-") {
		t.Error("the key has no expiry:", ttl)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	if n := server.Must("EXISTS", "stint:nodes"); n != "0" {
		t.Error("a node that closed left its announcement")
	}
}

func TestHeartbeatCanBeOff(t *testing.T) {
	server := redistest.Server(t)
	store := open(t, Options{Addrs: []string{server.Addr()}, Heartbeat: -1})
	eventually(t, "it is connected", func() bool { return store.Stats().Up })
	if err := store.Probe(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	if n := server.Must("EXISTS", "stint:nodes"); n != "0" {
		t.Error("it announced itself")
	}
}

func TestClockSkewIsMeasured(t *testing.T) {
	server := redistest.Server(t)
	for _, ahead := range []time.Duration{0, time.Hour, -time.Hour} {
		clock := func() int64 { return time.Now().Add(-ahead).UnixMicro() }
		store := open(t, Options{Addrs: []string{server.Addr()}, Heartbeat: testBeat, Clock: clock})
		eventually(t, "it has been measured", func() bool { return store.Stats().Nodes > 0 })
		if skew := store.Stats().ClockSkew; (skew - ahead).Abs() > time.Second {
			t.Errorf("the store's clock is %v ahead; measured %v", ahead, skew)
		}
	}
}

func TestWarnsOfServerThatMayEvict(t *testing.T) {
	for policy, warns := range map[string]bool{"allkeys-lru": true, "volatile-ttl": true, "noeviction": false} {
		server := redistest.Server(t, "--maxmemory", "100mb", "--maxmemory-policy", policy)
		var text bytes.Buffer
		store := open(t, Options{Addrs: []string{server.Addr()}, Logger: slog.New(slog.NewTextHandler(&text, nil))})
		for range 2 { // once, however often it connects
			if err := store.Probe(t.Context(), ""); err != nil {
				t.Fatal(err)
			}
			store.Stop("")
			store.Start("")
		}
		if err := store.Close(); err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(text.String(), "maxmemory_policy="+policy); n != 1 && warns || n != 0 && !warns {
			t.Errorf("%s: %d warnings:\n%s", policy, n, &text)
		}
	}
}
