package redisstore

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/stintdev/stint"
)

// slotMap maps each slot of a Cluster to the node that owns it. It learns from the
// nodes' lists of slots and from redirections.
type slotMap struct {
	dialer *dialer
	owners [slots]atomic.Pointer[node] // nil: not known
	entry  atomic.Pointer[node]        // the node for slots without a known owner
	stale  atomic.Bool                 // the map may be out of date

	adopting sync.Mutex // held while a map replaces another

	mu struct {
		sync.Mutex

		nodes map[string]*node // by address: the masters, or before they are known the given addresses
	}
}

const (
	// mapInterval is how often the slot map is checked for staleness.
	mapInterval = 500 * time.Millisecond
	// mapChecks is the number of checks after which the map is refreshed anyway.
	mapChecks = 20
)

// newSlotMap begins to learn the map in the background, until ctx ends.
func newSlotMap(ctx context.Context, d *dialer) *slotMap {
	m := &slotMap{dialer: d}
	m.mu.nodes = map[string]*node{}
	for _, addr := range slices.Backward(d.opts.Addrs) {
		m.entry.Store(m.nodeAt(addr))
	}
	m.stale.Store(true)
	d.background(func() { m.refresh(ctx) })
	quiet := 0
	d.every(ctx, mapInterval, func() {
		if quiet++; quiet >= mapChecks || m.stale.Load() || m.anyStopped() {
			quiet = 0
			m.refresh(ctx)
		}
	})
	return m
}

// nodeOf returns the node that owns a slot, as far as is known. It is never nil.
func (m *slotMap) nodeOf(slot uint16) *node {
	if n := m.owners[slot].Load(); n != nil && !n.gone.Load() {
		return n
	}
	return m.entry.Load()
}

func (m *slotMap) hasSlots(n *node) bool {
	for slot := range m.owners {
		if m.owners[slot].Load() == n {
			return true
		}
	}
	return false
}

func (m *slotMap) keeps(n *node, slot uint16) bool { return m.owners[slot].Load() == n }

// nodeAt returns the node at an address. If the node is new, it begins to connect.
func (m *slotMap) nodeAt(addr string) *node {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.mu.nodes[addr]
	if n == nil {
		n = newNode(addr, m.dialer, m)
		m.mu.nodes[addr] = n
		n.dial(!probing)
	}
	return n
}

// all returns the nodes in the order of their addresses.
func (m *slotMap) all() []*node {
	m.mu.Lock()
	defer m.mu.Unlock()
	nodes := make([]*node, 0, len(m.mu.nodes))
	for _, n := range m.mu.nodes {
		nodes = append(nodes, n)
	}
	slices.SortFunc(nodes, func(a, b *node) int { return strings.Compare(a.name, b.name) })
	return nodes
}

func (m *slotMap) byName(addr string) *node {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.mu.nodes[addr]
}

func (m *slotMap) anyStopped() bool {
	return slices.ContainsFunc(m.all(), func(n *node) bool { return n.stopped.Load() })
}

// refresh learns the map from the first node that answers. It asks the known nodes
// that are not stopped, and then the addresses of the options.
func (m *slotMap) refresh(ctx context.Context) {
	m.stale.Store(false) // before asking: the answer may miss a later change
	for _, n := range m.all() {
		if !n.stopped.Load() && m.learn(ctx, n) {
			return
		}
	}
	for _, addr := range m.dialer.opts.Addrs {
		n := newNode(addr, m.dialer, m)
		learnt := m.learn(ctx, n)
		n.leave()
		if learnt {
			return
		}
	}
	m.stale.Store(true)
}

// learn adopts the map of one node, and returns false if the node does not answer.
func (m *slotMap) learn(ctx context.Context, n *node) bool {
	ctx, cancel := context.WithTimeout(ctx, min(m.dialer.opts.Timeout, mapInterval))
	defer cancel()
	shards, err := n.shards(ctx)
	if err != nil {
		m.dialer.log.Debug("the slot map of the cluster could not be read", "server", n.name, "error", m.dialer.explain(err, n.name))
		return false
	}
	m.adopt(shards)
	return true
}

// adopt replaces the map by the shards, and closes the nodes that own no slot.
func (m *slotMap) adopt(shards []shard) {
	m.adopting.Lock()
	defer m.adopting.Unlock()
	var owners [slots]*node
	masters := map[*node]bool{}
	for _, s := range shards {
		n := m.nodeAt(s.addr)
		masters[n] = true
		for slot := s.first; slot <= s.last; slot++ {
			owners[slot] = n
		}
	}
	for slot, n := range owners {
		m.owners[slot].Store(n)
	}
	m.entry.Store(m.nodeAt(shards[0].addr))
	m.keep(masters)
}

func (m *slotMap) keep(masters map[*node]bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for addr, n := range m.mu.nodes {
		if !masters[n] {
			delete(m.mu.nodes, addr)
			n.leave()
			m.dialer.log.Info("the server owns no slots of the cluster any more", "server", addr)
		}
	}
}

// confused reports whether an error suggests that the Cluster's topology has changed.
func confused(err error) bool {
	var e *stint.Error
	return errors.As(err, &e) && slices.Contains([]stint.Kind{"connection", "timeout", "cluster_down", "readonly", "master_down"}, e.Kind)
}

// shard is a range of slots and the master that owns it.
type shard struct {
	first, last int
	addr        string
}

var errNoSlots = errors.New("the cluster has no slots yet")

// shards asks a node for the owners of the slots.
func (n *node) shards(ctx context.Context) ([]shard, error) {
	c, err := n.connected(ctx, !probing)
	if err != nil {
		return nil, err
	}
	defer c.leave()
	ranges, err := c.client.Do(ctx, c.client.B().ClusterSlots().Build()).ToArray()
	if err != nil {
		return nil, err
	}
	var all []shard
	for _, r := range ranges {
		if s, ok := readShard(r, c.addr); ok {
			all = append(all, s)
		}
	}
	if len(all) == 0 {
		return nil, errNoSlots
	}
	return all, nil
}

// readShard reads one range of slots. Its replicas, which follow the master, are
// ignored.
func readShard(r rueidis.RedisMessage, from string) (shard, bool) {
	parts, err := r.ToArray()
	if err != nil || len(parts) < 3 {
		return shard{}, false
	}
	first, err1 := parts[0].AsInt64()
	last, err2 := parts[1].AsInt64()
	master, err3 := parts[2].ToArray()
	if err1 != nil || err2 != nil || err3 != nil || len(master) < 2 || first < 0 || last >= slots {
		return shard{}, false
	}
	host, _ := master[0].ToString() // null if the server does not know its own host
	port, err := master[1].AsInt64()
	return shard{first: int(first), last: int(last), addr: reachable(host, strconv.FormatInt(port, 10), from)}, err == nil
}

// slots is the number of hash slots of a Cluster.
const slots = 16384

// slotOf returns the hash slot of a key: CRC16/XMODEM of the text between the first { and
// the next }, or of the whole key if there is no such text.
func slotOf(key string) uint16 {
	if _, after, found := strings.Cut(key, "{"); found {
		if tag, _, closed := strings.Cut(after, "}"); closed && tag != "" {
			key = tag
		}
	}
	return crc16(key) % slots
}

// crc16 processes four bits at a time with a table of 16 remainders of the polynomial
// x¹⁶ + x¹² + x⁵ + 1.
func crc16(s string) (crc uint16) {
	table := [16]uint16{
		0x0000, 0x1021, 0x2042, 0x3063, 0x4084, 0x50a5, 0x60c6, 0x70e7,
		0x8108, 0x9129, 0xa14a, 0xb16b, 0xc18c, 0xd1ad, 0xe1ce, 0xf1ef,
	}
	for i := range len(s) {
		crc = crc<<4 ^ table[crc>>12^uint16(s[i]>>4)]
		crc = crc<<4 ^ table[crc>>12^uint16(s[i]&15)]
	}
	return crc
}
