package redistest

import (
	"fmt"
	"strconv"
)

// BeginMove starts the migration of a slot to another master, as a reshard does. The owner
// then answers ASK for keys that it no longer has.
func (c *ClusterServers) BeginMove(slot int, to *Process) {
	c.t.Helper()
	from := c.Owner(slot)
	to.Must("CLUSTER", "SETSLOT", strconv.Itoa(slot), "IMPORTING", c.ID(from))
	from.Must("CLUSTER", "SETSLOT", strconv.Itoa(slot), "MIGRATING", c.ID(to))
}

// MoveKey moves one key of a slot after [ClusterServers.BeginMove]. It returns false if no
// key was left.
func (c *ClusterServers) MoveKey(slot int, to *Process) bool {
	c.t.Helper()
	from := c.Owner(slot)
	key := from.Must("CLUSTER", "GETKEYSINSLOT", strconv.Itoa(slot), "1")
	if key != "" {
		from.Must("MIGRATE", "127.0.0.1", strconv.Itoa(to.port), key, "0", "5000")
	}
	return key != ""
}

// MoveKeys moves all keys of a slot after [ClusterServers.BeginMove], one by one.
func (c *ClusterServers) MoveKeys(slot int, to *Process) {
	c.t.Helper()
	for c.MoveKey(slot, to) {
	}
}

// EndMove makes the other master the owner of the slot and tells every node.
func (c *ClusterServers) EndMove(slot int, to *Process) {
	c.t.Helper()
	from, id := c.Owner(slot), c.ID(to)
	to.Must("CLUSTER", "SETSLOT", strconv.Itoa(slot), "NODE", id)
	from.Must("CLUSTER", "SETSLOT", strconv.Itoa(slot), "NODE", id)
	for _, p := range c.Masters() {
		p.Must("CLUSTER", "SETSLOT", strconv.Itoa(slot), "NODE", id)
	}
}

// Move moves a slot with its keys to another master.
func (c *ClusterServers) Move(slot int, to *Process) {
	c.t.Helper()
	if c.Owner(slot) == to {
		return
	}
	c.BeginMove(slot, to)
	c.MoveKeys(slot, to)
	c.EndMove(slot, to)
}

// Replica returns a replica of a master that has all its writes.
func (c *ClusterServers) Replica(master *Process) *Process {
	c.t.Helper()
	var replica *Process
	Await(c.t, func() error {
		for _, p := range c.answering() {
			info, err := p.Do("INFO", "replication")
			if err == nil && infoField(info, "master_port") == strconv.Itoa(master.port) && infoField(info, "master_link_status") == "up" {
				replica = p
				return nil
			}
		}
		return fmt.Errorf("master %s has no replica in step", master.Addr())
	})
	return replica
}

// Failover makes a replica take over from its master without losing a write, and waits
// until it has.
func (c *ClusterServers) Failover(replica *Process) {
	c.t.Helper()
	replica.Must("CLUSTER", "FAILOVER")
	c.awaitMaster(replica)
}

// AwaitTakeover waits until another node owns the slots of a master that was killed, frozen
// or cut off, and returns that node.
func (c *ClusterServers) AwaitTakeover(slot int, from *Process) *Process {
	c.t.Helper()
	var owner *Process
	Await(c.t, func() error {
		for _, p := range c.answering() {
			if role, err := p.Info("role"); p != from && err == nil && role == "master" && owns(p, slot) {
				owner = p
				return nil
			}
		}
		return fmt.Errorf("nobody took slot %d over from %s", slot, from.Addr())
	})
	return owner
}

func (c *ClusterServers) awaitMaster(p *Process) {
	c.t.Helper()
	Await(c.t, func() error {
		role, err := p.Info("role")
		if err == nil && role != "master" {
			return fmt.Errorf("node %s is %s", p.Addr(), role)
		}
		return err
	})
	c.AwaitReady()
}
