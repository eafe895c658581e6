package redistest

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Slots is how many hash slots a Cluster has.
const Slots = 16384

// ClusterServers is a Cluster that is formed and ready.
type ClusterServers struct {
	// Nodes are all servers: first the initial masters, which share the slots
	// evenly in this order, then the replicas. A failover changes the masters.
	Nodes []*Process
	t     testing.TB
}

// NodeTimeout is how long a master must be silent before the other masters replace it:
// long enough for a busy machine, short enough for a test to wait for.
const NodeTimeout = 1500 * time.Millisecond

// Cluster starts a Cluster with a number of masters and a total number of replicas,
// which it assigns to the masters in turn. When Cluster returns, every node reports
// that the Cluster is ready and every replica is in sync. The options apply to each
// server.
func Cluster(t testing.TB, masters, replicas int, options ...string) *ClusterServers {
	t.Helper()
	c := &ClusterServers{t: t}
	for range masters + replicas {
		p := newProcess(t, Binary(t))
		p.options = append(slices.Clone(options), "--save", "", "--appendonly", "no", "--cluster-enabled", "yes",
			"--cluster-node-timeout", strconv.FormatInt(NodeTimeout.Milliseconds(), 10), "--cluster-replica-validity-factor", "0", "--repl-diskless-sync", "no")
		p.launch()
		c.Nodes = append(c.Nodes, p)
	}
	c.deal(masters)
	c.meet()
	for i, p := range c.Nodes[masters:] {
		p.Must("CLUSTER", "REPLICATE", c.ID(c.Nodes[i%masters]))
	}
	c.AwaitReady()
	return c
}

// deal gives each master its slots and a distinct epoch, so that the masters need not
// resolve an epoch conflict later.
func (c *ClusterServers) deal(masters int) {
	c.t.Helper()
	for i, p := range c.Nodes[:masters] {
		args := []string{"CLUSTER", "ADDSLOTS"}
		for slot := Slots * i / masters; slot < Slots*(i+1)/masters; slot++ {
			args = append(args, strconv.Itoa(slot))
		}
		p.Must(args...)
		p.Must("CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i+1))
	}
}

// meet introduces every node to every other, which is faster than gossip.
func (c *ClusterServers) meet() {
	c.t.Helper()
	for i, p := range c.Nodes {
		for _, other := range c.Nodes[:i] {
			p.Must("CLUSTER", "MEET", "127.0.0.1", strconv.Itoa(other.port))
		}
	}
	Await(c.t, func() error {
		for _, p := range c.Nodes {
			if known := strings.Count(p.Must("CLUSTER", "NODES"), " connected"); known != len(c.Nodes) {
				return fmt.Errorf("node %s is connected to %d of %d nodes", p.Addr(), known, len(c.Nodes))
			}
		}
		return nil
	})
}

// AwaitReady waits until every node that answers reports a complete Cluster, all nodes
// agree on the slots and the masters of each node, and every replica is in sync.
func (c *ClusterServers) AwaitReady() {
	c.t.Helper()
	Await(c.t, func() error {
		nodes := c.answering()
		for _, p := range nodes {
			if err := ready(p); err != nil {
				return err
			}
			if theirs, first := view(p), view(nodes[0]); theirs != first {
				return fmt.Errorf("node %s sees\n%s\nand node %s\n%s", p.Addr(), theirs, nodes[0].Addr(), first)
			}
		}
		return nil
	})
}

// view is what a node believes: each node's name, its master's or "-", and
// its slots. CLUSTER NODES has them in the first, fourth and from the ninth
// field on.
func view(p *Process) string {
	nodes, err := p.Do("CLUSTER", "NODES")
	if err != nil {
		return err.Error()
	}
	var lines []string
	for line := range strings.Lines(nodes) {
		if f := strings.Fields(line); len(f) >= 8 {
			lines = append(lines, f[0]+" "+f[3]+" "+strings.Join(f[8:], " "))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func ready(p *Process) error {
	state, err := p.Do("CLUSTER", "INFO")
	if err != nil {
		return err
	}
	if state := infoField(state, "cluster_state"); state != "ok" {
		return fmt.Errorf("node %s: cluster_state is %s", p.Addr(), state)
	}
	info, err := p.Do("INFO", "replication")
	if err != nil {
		return err
	}
	if link := infoField(info, "master_link_status"); link != "" && link != "up" {
		return fmt.Errorf("replica %s: its link to its master is %s", p.Addr(), link)
	}
	return nil
}

func (c *ClusterServers) answering() []*Process {
	return slices.DeleteFunc(slices.Clone(c.Nodes), func(p *Process) bool { return !p.answers() })
}

// Addrs returns the addresses of all nodes.
func (c *ClusterServers) Addrs() []string {
	addrs := make([]string, len(c.Nodes))
	for i, p := range c.Nodes {
		addrs[i] = p.Addr()
	}
	return addrs
}

// ID returns the name that a node has in the Cluster.
func (c *ClusterServers) ID(p *Process) string {
	c.t.Helper()
	return p.Must("CLUSTER", "MYID")
}

// Masters returns the nodes that answer and are masters.
func (c *ClusterServers) Masters() []*Process {
	c.t.Helper()
	return slices.DeleteFunc(c.answering(), func(p *Process) bool {
		role, err := p.Info("role")
		return err != nil || role != "master"
	})
}

// Slot returns the hash slot of a key.
func (c *ClusterServers) Slot(key string) int {
	c.t.Helper()
	slot, err := strconv.Atoi(c.answering()[0].Must("CLUSTER", "KEYSLOT", key))
	if err != nil {
		c.t.Fatal(err)
	}
	return slot
}

// Owner returns the master that has a slot, by its own account.
func (c *ClusterServers) Owner(slot int) *Process {
	c.t.Helper()
	var owner *Process
	Await(c.t, func() error {
		for _, p := range c.Masters() {
			if owns(p, slot) {
				owner = p
				return nil
			}
		}
		return fmt.Errorf("no master that runs has slot %d", slot)
	})
	return owner
}

// owns reads a node's own line of CLUSTER NODES, whose slots are numbers or
// ranges from the ninth field on.
func owns(p *Process, slot int) bool {
	nodes, err := p.Do("CLUSTER", "NODES")
	if err != nil {
		return false
	}
	for line := range strings.Lines(nodes) {
		fields := strings.Fields(line)
		if len(fields) > 8 && strings.Contains(fields[2], "myself") {
			return slices.ContainsFunc(fields[8:], func(slots string) bool { return inRange(slots, slot) })
		}
	}
	return false
}

func inRange(slots string, slot int) bool {
	first, last, isRange := strings.Cut(slots, "-")
	if !isRange {
		last = first
	}
	from, err1 := strconv.Atoi(first)
	to, err2 := strconv.Atoi(last)
	return errors.Join(err1, err2) == nil && from <= slot && slot <= to // a slot on its way, "[7->-…", is no number
}
