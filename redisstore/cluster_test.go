package redisstore

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/redistest"
)

func newTestCluster(t *testing.T, masters, replicas int) (*redistest.ClusterServers, *topology) {
	t.Helper()
	servers := redistest.Cluster(t, masters, replicas)
	top := newTestTopology(t, Options{Topology: Cluster, Addrs: servers.Addrs()[:1]})
	return servers, top
}

// counted returns the count of the counting script under a key, on whichever server it is.
func counted(t *testing.T, servers *redistest.ClusterServers, key string) int {
	t.Helper()
	n, err := strconv.Atoi(servers.Owner(servers.Slot(key)).Must("GET", key))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestClusterCallsGoWhereTheSlotIs(t *testing.T) {
	servers, top := newTestCluster(t, 3, 0)
	eventually(t, "the map is known", func() bool { return len(top.all()) == 3 && top.up() })
	for i := range 100 {
		key := fmt.Sprint("k", i)
		if got, err := count(t, top, key); err != nil || got != "1" {
			t.Fatal(key, got, err)
		}
		slot := slotOf(key)
		if want := servers.Slot(key); int(slot) != want {
			t.Fatalf("slot of %s is %d; the server says %d", key, slot, want)
		}
		if n := top.nodeOf(slot); n.name != servers.Owner(int(slot)).Addr() || !top.slots.keeps(n, slot) {
			t.Errorf("%s goes to %s", key, n.name)
		}
	}
	if n := top.dialer.noScript.Load(); n != 0 {
		t.Errorf("%d calls missed their script; want it loaded on every node", n)
	}
}

func TestClusterIsServedBeforeItsMapIsKnown(t *testing.T) {
	servers := redistest.Cluster(t, 3, 0)
	top := newTestTopology(t, Options{Topology: Cluster, Addrs: servers.Addrs()[:1]})
	for i := range 20 { // the first calls go to the given address, which redirects them
		if _, err := count(t, top, fmt.Sprint("k", i)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestEveryShardIsProbedOnItsOwn(t *testing.T) {
	servers, top := newTestCluster(t, 3, 0)
	eventually(t, "the map is known", func() bool { return len(top.all()) == 3 })
	frozen := servers.Masters()[1]
	for _, n := range top.all() {
		n.stop()
		if n.name == frozen.Addr() {
			continue
		}
		if err := n.probe(t.Context()); err != nil {
			t.Errorf("a probe of %s says %v", n.name, err)
		}
	}
	frozen.Freeze()
	defer frozen.Thaw()
	within, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	wantError(t, top.byName(frozen.Addr()).probe(within), stint.CodeTimeout, "connection")
}

// load runs the counting script on keys until it is stopped. It returns how many calls
// were answered, and how many others may have run.
func load(t *testing.T, top *topology, keys []string) (stop func() (answered, unknown []int64)) {
	t.Helper()
	var end atomic.Bool
	var callers sync.WaitGroup
	answered, unknown := make([]int64, len(keys)), make([]int64, len(keys))
	for i, key := range keys {
		callers.Go(func() {
			for !end.Load() {
				_, err := count(t, top, key)
				var e *stint.Error
				switch {
				case err == nil:
					answered[i]++
				case asError(err, &e) && e.Code == stint.CodeTimeout:
					unknown[i]++
				}
			}
		})
	}
	return func() ([]int64, []int64) {
		end.Store(true)
		callers.Wait()
		return answered, unknown
	}
}

func TestReshardingUnderLoadLosesAndRepeatsNoCall(t *testing.T) {
	servers, top := newTestCluster(t, 3, 0)
	keys := []string{"{a}1", "{a}2", "b", "c"}
	stop := load(t, top, keys)
	slot := servers.Slot(keys[0])
	for range 3 {
		from := servers.Owner(slot)
		for _, to := range servers.Masters() {
			if to != from {
				servers.Move(slot, to)
				break
			}
		}
	}
	answered, unknown := stop()
	for i, key := range keys {
		if unknown[i] != 0 {
			t.Errorf("%s: %d calls have an unknown outcome though no connection broke", key, unknown[i])
		}
		if n := counted(t, servers, key); int64(n) != answered[i] {
			t.Errorf("%s: %d calls were answered and %d ran", key, answered[i], n)
		}
	}
}

func TestMigratingSlotIsAskedForAtItsTarget(t *testing.T) {
	servers, top := newTestCluster(t, 2, 0)
	slot := servers.Slot("{s}")
	from := servers.Owner(slot)
	to := servers.Masters()[0]
	if to == from {
		to = servers.Masters()[1]
	}
	if _, err := count(t, top, "{s}stays"); err != nil {
		t.Fatal(err)
	}
	servers.BeginMove(slot, to)
	if got, err := count(t, top, "{s}new"); err != nil || got != "1" { // the server answers ASK
		t.Error(got, err)
	}
	if got, err := count(t, top, "{s}stays"); err != nil || got != "2" {
		t.Error(got, err)
	}
	servers.MoveKeys(slot, to)
	if got, err := count(t, top, "{s}stays"); err != nil || got != "3" { // the server answers ASK
		t.Error(got, err)
	}
	if top.nodeOf(uint16(slot)).name != from.Addr() {
		t.Error("ASK changed the map")
	}
	servers.EndMove(slot, to)
	if got, err := count(t, top, "{s}stays"); err != nil || got != "4" { // the server answers MOVED
		t.Error(got, err)
	}
	if top.nodeOf(uint16(slot)).name != to.Addr() {
		t.Error("MOVED did not change the map")
	}
}

// refusedScript matches the counts of a server that has refused to run a script.
var refusedScript = regexp.MustCompile(`cmdstat_eval(sha)?:.*rejected_calls=[1-9]`)

func TestCallWithKeysOnBothSidesWaitsForTheMigration(t *testing.T) {
	servers, top := newTestCluster(t, 2, 0)
	slot := servers.Slot("{s}")
	from, to := servers.Owner(slot), servers.Masters()[0]
	if to == from {
		to = servers.Masters()[1]
	}
	if _, err := count(t, top, "{s}1"); err != nil {
		t.Fatal(err)
	}
	servers.BeginMove(slot, to)
	both := []invocation{{script: counting, keys: []string{"{s}1", "{s}2"}, args: []string{"1"}}}
	replies := make([]reply, 1)
	var answered sync.WaitGroup
	answered.Go(func() { top.nodeOf(uint16(slot)).send(t.Context(), both, replies) })
	eventually(t, "the server said TRYAGAIN", func() bool {
		// Redis 6.2 does not list TRYAGAIN among the errors that it counts.
		stats, err := from.Do("INFO", "commandstats")
		return err == nil && refusedScript.MatchString(stats)
	})
	servers.MoveKeys(slot, to)
	servers.EndMove(slot, to)
	answered.Wait()
	if replies[0].err != nil || replies[0].data != "2" {
		t.Error(replies[0])
	}
}

func TestMasterThatDiesIsReplacedByItsReplica(t *testing.T) {
	servers, top := newTestCluster(t, 3, 3)
	eventually(t, "the map is known", func() bool { return len(top.all()) == 3 })
	slot := servers.Slot("k")
	dead := servers.Owner(slot)
	if _, err := count(t, top, "k"); err != nil {
		t.Fatal(err)
	}
	servers.Replica(dead)
	dead.Kill()
	_, err := count(t, top, "k")
	if err == nil {
		t.Fatal("a dead master answered")
	}
	top.byName(dead.Addr()).stop() // guard stops a server too
	heir := servers.AwaitTakeover(slot, dead)
	eventually(t, "the map names the replica", func() bool { return top.nodeOf(uint16(slot)).name == heir.Addr() })
	if _, err := count(t, top, "k"); err != nil {
		t.Error(err)
	}
	eventually(t, "the dead master is gone from the map", func() bool { return top.byName(dead.Addr()) == nil })
}

func TestOrderlyFailoverUnderLoad(t *testing.T) {
	servers, top := newTestCluster(t, 3, 3)
	slot := servers.Slot("k")
	old := servers.Owner(slot)
	replica := servers.Replica(old)
	stop := load(t, top, []string{"k"})
	servers.Failover(replica)
	eventually(t, "the new master serves", func() bool { return top.nodeOf(uint16(slot)).name == replica.Addr() })
	answered, unknown := stop()
	n := int64(counted(t, servers, "k"))
	if n < answered[0] || n > answered[0]+unknown[0] {
		t.Errorf("%d calls were answered, %d may have run, and %d did", answered[0], unknown[0], n)
	}
}

func TestNodeThatLeftTheClusterRedirectsItsCalls(t *testing.T) {
	servers, top := newTestCluster(t, 2, 0)
	eventually(t, "the map is known", func() bool { return top.slots.owners[slots-1].Load() != nil })
	held, other := top.nodeOf(slotOf("k")), servers.Masters()[0].Addr()
	if held.name == other {
		other = servers.Masters()[1].Addr()
	}
	top.slots.adopt([]shard{{0, slots - 1, other}}) // the map of a node that lags behind
	replies := make([]reply, 1)
	held.send(t.Context(), []invocation{{script: counting, keys: []string{"k"}, args: []string{"1"}}}, replies)
	if replies[0].err != nil || replies[0].data != "1" {
		t.Error(replies[0].data, replies[0].err)
	}
	if n := top.nodeOf(slotOf("k")); n == held || n.name != held.name {
		t.Errorf("the slot's node is %p of %s; want a new one of %s", n, n.name, held.name)
	}
}

// A server leaves the Cluster while a check waits for a connection to it. The check is
// sent to the new owner of its slot, and the connection is closed.
func TestNodeThatLeavesWhileItConnectsRedirectsItsCalls(t *testing.T) {
	servers, top := newTestCluster(t, 2, 0)
	eventually(t, "the map is known", func() bool { return len(top.all()) == 2 && top.up() })
	owner := servers.Owner(servers.Slot("k"))
	owner.Freeze()
	defer owner.Thaw()
	leaves := newNode(owner.Addr(), top.dialer, top.slots)
	connecting := leaves.dial(!probing)
	replies := make([]reply, 1)
	var answered sync.WaitGroup
	answered.Go(func() {
		leaves.send(t.Context(), []invocation{{script: counting, keys: []string{"k"}, args: []string{"1"}}}, replies)
	})
	leaves.leave()
	owner.Thaw()
	answered.Wait()
	if replies[0].err != nil || replies[0].data != "1" {
		t.Error(replies[0])
	}
	<-connecting.done
	if leaves.conn.Load() != nil {
		t.Error("a connection is kept to a server that has left")
	}
}

func TestSlotsFollowTheSpecification(t *testing.T) {
	for key, want := range map[string]uint16{
		"123456789": 0x31c3, "": 0, "foo": 12182, "{foo}bar": 12182, "a{foo}b{bar}": 12182, "{}foo": slotOf("{}foo"), "foo{": slotOf("foo{"),
	} {
		if got := slotOf(key); got != want {
			t.Errorf("%q: %d; want %d", key, got, want)
		}
	}
	if slotOf("{}foo") == slotOf("") {
		t.Error("an empty tag counts as a tag")
	}
}
