package redistest

import (
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestClusterFormsAndServesEverySlot(t *testing.T) {
	begun := time.Now()
	c := Cluster(t, 3, 3)
	t.Logf("formed in %v", time.Since(begun))
	if masters := c.Masters(); len(masters) != 3 {
		t.Fatalf("%d masters", len(masters))
	}
	for i, slot := range []int{0, Slots / 2, Slots - 1} {
		if owner := c.Owner(slot); owner != c.Nodes[i] {
			t.Errorf("slot %d is on %s, want %s", slot, owner.Addr(), c.Nodes[i].Addr())
		}
	}
	for i, p := range c.Nodes[:3] {
		if replica := c.Replica(p); replica != c.Nodes[3+i] {
			t.Errorf("replica of %s is %s", p.Addr(), replica.Addr())
		}
	}
	c.Owner(c.Slot("a")).Must("SET", "a", "1")
	if _, err := c.Nodes[(c.Slot("a")*3/Slots+1)%3].Do("GET", "a"); err == nil || !strings.Contains(err.Error(), "MOVED") {
		t.Errorf("another master's answer: %v, want MOVED", err)
	}
	t.Run("movesASlotWithItsKeys", func(t *testing.T) { movesASlot(t, c) })
	t.Run("failsOverInGoodOrder", func(t *testing.T) { failsOverInOrder(t, c) })
	t.Run("survivesAKilledMaster", func(t *testing.T) { survivesAKill(t, c) })
}

func movesASlot(t *testing.T, c *ClusterServers) {
	slot := c.Slot("a")
	from, to := c.Owner(slot), c.Nodes[(slot*3/Slots+1)%3]
	c.BeginMove(slot, to)
	if _, err := from.Do("GET", "{a}b"); err == nil || !strings.Contains(err.Error(), "ASK "+strconv.Itoa(slot)) {
		t.Errorf("a key that is not there while its slot moves: %v, want ASK", err)
	}
	c.MoveKeys(slot, to)
	c.EndMove(slot, to)
	if owner := c.Owner(slot); owner != to {
		t.Errorf("the slot is on %s", owner.Addr())
	}
	if got := to.Must("GET", "a"); got != "1" {
		t.Errorf("a: %q after the move", got)
	}
}

func failsOverInOrder(t *testing.T, c *ClusterServers) {
	master := c.Nodes[0]
	replica := c.Replica(master)
	c.Failover(replica)
	if owner := c.Owner(0); owner != replica {
		t.Errorf("slot 0 is on %s, want the replica", owner.Addr())
	}
	c.Failover(c.Replica(replica))
	if owner := c.Owner(0); owner != master {
		t.Errorf("slot 0 is on %s, want back where it was", owner.Addr())
	}
}

func survivesAKill(t *testing.T, c *ClusterServers) {
	master, slot := c.Nodes[1], Slots/2 // its voters have not voted a moment ago, after which they wait
	key := keyOf(t, c, master)
	master.Must("SET", key, "1")
	master.AwaitReplicas(1)
	begun := time.Now()
	master.Kill()
	owner := c.AwaitTakeover(slot, master)
	t.Logf("taken over in %v", time.Since(begun))
	c.AwaitReady()
	t.Logf("failed over in %v", time.Since(begun))
	if got := owner.Must("GET", key); got != "1" {
		t.Errorf("%s: %q after the failover", key, got)
	}
	master.Restart()
	Await(t, func() error {
		if role, err := master.Info("role"); err != nil || role != "slave" {
			return errors.Join(errors.New("the killed master is not yet a replica"), err)
		}
		return nil
	})
	c.AwaitReady()
	if got := c.Replica(owner); got != master {
		t.Errorf("replica of the new master: %s", got.Addr())
	}
}

// keyOf returns a key that a master has.
func keyOf(t *testing.T, c *ClusterServers, master *Process) string {
	t.Helper()
	for i := range 1000 {
		if key := "k" + strconv.Itoa(i); owns(master, c.Slot(key)) {
			return key
		}
	}
	t.Fatalf("none of 1000 keys is on %s", master.Addr())
	return ""
}
