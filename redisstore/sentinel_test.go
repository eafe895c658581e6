package redisstore

import (
	"testing"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/redistest"
)

func newTestSentinel(t *testing.T) (*redistest.SentinelServers, *topology) {
	t.Helper()
	servers := redistest.Sentinel(t)
	return servers, newTestTopology(t, Options{Topology: Sentinel, Addrs: servers.Addrs(), Master: servers.Name})
}

func TestSentinelsNameTheMaster(t *testing.T) {
	servers, top := newTestSentinel(t)
	if _, err := count(t, top, "k"); err != nil {
		t.Fatal(err)
	}
	if addr := top.nodeOf(0).conn.Load().addr; addr != servers.Master().Addr() {
		t.Errorf("calls go to %s; the master is %s", addr, servers.Master().Addr())
	}
}

func TestMasterThatDiesIsFollowed(t *testing.T) {
	servers, top := newTestSentinel(t)
	if _, err := count(t, top, "k"); err != nil {
		t.Fatal(err)
	}
	old := servers.Master()
	old.Kill()
	top.nodeOf(0).stop() // guard stops a server too
	heir := servers.AwaitPromotion(old)
	promoted := time.Now()
	eventually(t, "a probe reaches the new master", func() bool { return top.nodeOf(0).probe(t.Context()) == nil })
	took := time.Since(promoted)
	t.Logf("served %v after the promotion", took.Round(time.Millisecond))
	if took > 5*time.Second {
		t.Errorf("served %v after the promotion; want at most 5 s", took)
	}
	top.nodeOf(0).start()
	if _, err := count(t, top, "k"); err != nil || top.nodeOf(0).conn.Load().addr != heir.Addr() {
		t.Error(err)
	}
}

func TestMasterThatIsDemotedIsLeft(t *testing.T) {
	servers, top := newTestSentinel(t)
	stop := load(t, top, []string{"k"})
	heir := servers.Failover()
	eventually(t, "calls go to the new master", func() bool {
		c := top.nodeOf(0).conn.Load()
		return c != nil && c.addr == heir.Addr()
	})
	if _, err := count(t, top, "after"); err != nil {
		t.Error(err)
	}
	answered, _ := stop()
	if answered[0] == 0 {
		t.Error("no call was answered")
	}
}

func TestSilentSentinelIsSkipped(t *testing.T) {
	servers := redistest.Sentinel(t)
	dead := servers.Watchers[0]
	dead.Freeze()
	defer dead.Thaw()
	top := newTestTopology(t, Options{Topology: Sentinel, Addrs: servers.Addrs(), Master: servers.Name, Timeout: 2 * time.Second})
	if _, err := count(t, top, "k"); err != nil {
		t.Error(err)
	}
}

func TestUnknownMasterIsReported(t *testing.T) {
	servers := redistest.Sentinel(t)
	top := newTestTopology(t, Options{Topology: Sentinel, Addrs: servers.Addrs(), Master: "nobody"})
	_, err := count(t, top, "k")
	wantError(t, err, stint.CodeUnavailable, "sentinel")
}

func TestUnreachableSentinelsAreReported(t *testing.T) {
	top := newTestTopology(t, Options{Topology: Sentinel, Addrs: []string{"127.0.0.1:1"}, Master: "m"})
	_, err := count(t, top, "k")
	wantError(t, err, stint.CodeUnavailable, "connection")
}

func TestMostNamedMasterIsUsed(t *testing.T) {
	for _, c := range []struct {
		names []string
		want  string
	}{
		{[]string{"a", "b", "b"}, "b"},
		{[]string{"", "a", "b"}, "a"},
		{[]string{"", "", "b"}, "b"},
		{[]string{"", ""}, ""},
	} {
		if got := mostNamed(c.names); got != c.want {
			t.Errorf("of %q: %q; want %q", c.names, got, c.want)
		}
	}
}
