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
	stores[1].Shards().Stop("") // as if its machine had failed
	eventually(t, "one that falls silent is gone", counted(1, stores[2]))
	if n := stores[1].NodeCount(); n != 2 {
		t.Errorf("while the store cannot be reached a node counts %d; want the last count, 2", n)
	}
	stores[1].Shards().Start("")
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
	if err := store.Shards().Probe(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	if n := server.Must("EXISTS", "stint:nodes"); n != "0" {
		t.Error("it announced itself")
	}
}

func TestClockSkewIsMeasured(t *testing.T) {
	server := redistest.Server(t)
	for _, ahead := range []time.Duration{0, time.Hour, -time.Hour} {
		clock := func() time.Time { return time.Now().Add(-ahead) }
		store := open(t, Options{Addrs: []string{server.Addr()}, Heartbeat: testBeat, Clock: clock})
		eventually(t, "it has been measured", func() bool { return store.Stats().Nodes > 0 })
		clocks := store.Stats().Clocks
		if len(clocks) != 1 || clocks[0].Shard != "" || (clocks[0].Skew-ahead).Abs() > time.Second || time.Since(clocks[0].Measured) > time.Minute {
			t.Errorf("the store's clock is %v ahead; measured %+v", ahead, clocks)
		}
	}
}

// On a Cluster every server decides by its own clock, so each one is measured, again and
// again; the time of the measurement of a server that has stopped stays.
func TestClockOfEveryServerIsMeasured(t *testing.T) {
	cluster := redistest.Cluster(t, 3, 0)
	store := open(t, Options{Topology: Cluster, Addrs: cluster.Addrs(), Heartbeat: testBeat, Clock: func() time.Time { return time.Now().Add(-time.Hour) }})
	var first []ClockStats
	eventually(t, "every server has been measured", func() bool {
		first = store.Stats().Clocks
		return len(first) == 3
	})
	for _, c := range first {
		if c.Shard == "" || (c.Skew-time.Hour).Abs() > time.Second {
			t.Errorf("%+v, an hour ahead", c)
		}
	}
	eventually(t, "each has been measured again", func() bool {
		for i, c := range store.Stats().Clocks {
			if !c.Measured.After(first[i].Measured) {
				return false
			}
		}
		return true
	})
}

func TestWarnsOfServerThatMayEvict(t *testing.T) {
	for policy, warns := range map[string]bool{"allkeys-lru": true, "volatile-ttl": true, "noeviction": false} {
		server := redistest.Server(t, "--maxmemory", "100mb", "--maxmemory-policy", policy)
		var text bytes.Buffer
		store := open(t, Options{Addrs: []string{server.Addr()}, Logger: slog.New(slog.NewTextHandler(&text, nil))})
		for range 2 { // one warning, however often the store connects
			if err := store.Shards().Probe(t.Context(), ""); err != nil {
				t.Fatal(err)
			}
			store.Shards().Stop("")
			store.Shards().Start("")
		}
		if err := store.Close(); err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(text.String(), "maxmemory_policy="+policy); n != 1 && warns || n != 0 && !warns {
			t.Errorf("%s: %d warnings:\n%s", policy, n, &text)
		}
	}
}

// watched has clocks and their log.
type watched struct {
	clocks clocks
	dialer *dialer
	text   logText
	steady time.Duration
}

func newWatchedClocks(own bool) *watched {
	w := &watched{}
	o := &Options{}
	if own {
		o.Clock = func() time.Time { return time.UnixMicro(0) }
	}
	w.dialer = &dialer{opts: o, log: slog.New(slog.NewTextHandler(&w.text, nil))}
	return w
}

// beat compares the clocks a second later, when the store's clock is ahead by skew.
func (w *watched) beat(ahead, unsure time.Duration) {
	w.steady += time.Second
	w.clocks.compare(w.dialer, "", reading{store: 1e18 + w.steady + ahead, steady: w.steady, skew: ahead, unsure: unsure})
}

// Each backward jump of the store's clock is logged.
func TestWarnsOfStoreClockThatGoesBack(t *testing.T) {
	for _, c := range []struct {
		name   string
		ahead  []time.Duration
		unsure time.Duration
		want   int
	}{
		{"steady", []time.Duration{0, 0, 0}, 0, 0},
		{"forward", []time.Duration{0, time.Hour, time.Hour}, 0, 0},
		{"back", []time.Duration{0, -time.Second, -time.Second, -time.Second}, 0, 1},
		{"back twice", []time.Duration{0, -time.Second, -2 * time.Second}, 0, 2},
		{"forward and back", []time.Duration{0, time.Minute, 0}, 0, 1},
		{"a little", []time.Duration{0, -99 * time.Millisecond}, 0, 0},
		{"drifting", []time.Duration{0, -50 * time.Millisecond, -100 * time.Millisecond, -150 * time.Millisecond, -200 * time.Millisecond}, 0, 0},
		{"perhaps", []time.Duration{0, -150 * time.Millisecond}, 30 * time.Millisecond, 0},
		{"surely", []time.Duration{0, -160 * time.Millisecond}, 30 * time.Millisecond, 1},
		{"ahead from the start", []time.Duration{-time.Hour, -time.Hour}, 0, 0},
	} {
		w := newWatchedClocks(false)
		for _, ahead := range c.ahead {
			w.beat(ahead, c.unsure)
		}
		if n := w.text.count("went back"); n != c.want || w.text.count("level=") != c.want {
			t.Errorf("%s: %d lines, want %d:\n%s", c.name, n, c.want, &w.text.text)
		}
	}
}

// A node that decides by its own clock logs when the clock is off, and when it is right
// again. Other nodes do not.
func TestWarnsOfNodeClockThatIsOff(t *testing.T) {
	for _, off := range []time.Duration{150 * time.Millisecond, -150 * time.Millisecond, time.Hour, -time.Hour} {
		w := newWatchedClocks(true)
		for range 3 {
			w.beat(off, 10*time.Millisecond)
		}
		if w.text.count("differs from the store's") != 1 || w.text.count("node_ahead="+(-off).String()) != 1 {
			t.Errorf("off by %v:\n%s", off, &w.text.text)
		}
		w.beat(40*time.Millisecond, 0)
		w.beat(0, 0)
		if w.text.count("in step with the store's again") != 1 {
			t.Errorf("off by %v, and right again:\n%s", off, &w.text.text)
		}
	}
	w := newWatchedClocks(true)
	w.beat(105*time.Millisecond, 10*time.Millisecond)
	if w.text.count("level=") > 0 {
		t.Errorf("a slow round trip:\n%s", &w.text.text)
	}
	w = newWatchedClocks(false)
	w.beat(time.Hour, 0)
	w.beat(time.Hour, 0)
	if w.text.count("level=") > 0 {
		t.Errorf("by the store's clock:\n%s", &w.text.text)
	}
}

func TestNodeClockIsComparedWithTheStores(t *testing.T) {
	server := redistest.Server(t)
	for _, ahead := range []time.Duration{0, time.Hour, -time.Hour} {
		text := &logText{}
		store := open(t, Options{
			Addrs: []string{server.Addr()}, Heartbeat: testBeat, Logger: slog.New(slog.NewTextHandler(text, nil)),
			Clock: func() time.Time { return time.Now().Add(ahead) },
		})
		eventually(t, "it has been measured", func() bool { return store.Stats().Nodes > 0 })
		if ahead == 0 {
			continue // on a busy machine a slow round trip looks like a skew
		}
		eventually(t, "the skew is logged", func() bool { return text.count("node_ahead=") == 1 })
	}
}
