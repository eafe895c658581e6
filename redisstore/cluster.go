package redisstore

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stintdev/stint"
)

// slotMap maps each slot of a Cluster to the node that owns it. It learns from the
// nodes' lists of slots and from redirections.
type slotMap struct {
	dialer *dialer
	owners [slots]atomic.Pointer[node] // nil: not known
	entry  atomic.Pointer[node]        // the node for slots without a known owner
	stale  atomic.Bool                 // the map may be out of date

	mu struct {
		sync.Mutex

		nodes map[string]*node // by address: the masters, or before they are known the given addresses
	}
}

const (
	// glance is how often the slot map is checked for staleness.
	glance = 500 * time.Millisecond
	// glances is the number of checks after which the map is refreshed anyway.
	glances = 20
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
	d.every(ctx, glance, func() {
		if quiet++; quiet >= glances || m.stale.Load() || m.anyStopped() {
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
	m.stale.Store(false) // before asking: what happens meanwhile may not be in the answer
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
	ctx, cancel := context.WithTimeout(ctx, min(m.dialer.opts.Timeout, glance))
	defer cancel()
	shards, err := n.shards(ctx)
	if err != nil {
		m.dialer.log.Debug("the server does not tell the cluster's slots", "server", n.name, "error", m.dialer.explain(err, n.name))
		return false
	}
	m.adopt(shards)
	return true
}

// adopt replaces the map by the shards, and closes the nodes that own no slot.
func (m *slotMap) adopt(shards []shard) {
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
			m.dialer.log.Info("the server keeps no slots of the cluster any more", "server", addr)
		}
	}
}

// route sends the calls of a node that has left the Cluster to the current owners of
// their slots.
func (m *slotMap) route(ctx context.Context, from *node, calls []invocation, replies []reply, hops int) {
	var legs []redirect
	for i := range calls {
		legs = travel(legs, redirect{to: m.nodeOf(slotOf(calls[i].keys[0]))}, i)
	}
	for _, leg := range legs {
		if leg.to == from {
			leg.fail(replies, from.refusal())
			continue
		}
		leg.run(ctx, calls, replies, hops+1)
	}
}

// tooMany bounds how often a call follows redirections before its error is returned.
const tooMany = 8

// redirect sends again the calls that a server did not run, because their slot is at
// another server or migrates.
func (m *slotMap) redirect(ctx context.Context, at redirect, l *link, calls []invocation, replies []reply, hops int) {
	var legs []redirect
	for i := range replies {
		r, ok := redirected(replies[i].err, l.addr)
		switch {
		case !ok:
		case r.later:
			legs = travel(legs, redirect{to: at.to, asking: at.asking, later: true}, i)
		case hops < tooMany:
			legs = travel(legs, redirect{to: m.told(r), asking: r.asking}, i)
		}
	}
	for _, leg := range legs {
		if !leg.later {
			leg.run(ctx, calls, replies, hops+1)
		} else if pause(ctx) {
			leg.run(ctx, calls, replies, hops)
		}
	}
}

// told returns the node that a redirection names. MOVED changes the map; ASK concerns
// only one call.
func (m *slotMap) told(r redirection) *node {
	n := m.nodeAt(r.addr)
	if !r.asking {
		m.owners[r.slot].Store(n)
		m.stale.Store(true)
	}
	return n
}

// pause waits before another try on a migrating slot. It returns false if ctx ends
// first.
func pause(ctx context.Context) bool {
	t := time.NewTimer(5 * time.Millisecond)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// redirect is a set of calls that are redirected together.
type redirect struct {
	to     *node
	asking bool  // with ASKING, because the node is importing the slot
	later  bool  // after a pause, because the slot's migration must proceed
	calls  []int // indexes of the calls
}

// travel adds call i to the set with the same destination, or to a new set.
func travel(legs []redirect, way redirect, i int) []redirect {
	at := slices.IndexFunc(legs, func(l redirect) bool { return l.to == way.to && l.asking == way.asking && l.later == way.later })
	if at < 0 {
		at = len(legs)
		legs = append(legs, way)
	}
	legs[at].calls = append(legs[at].calls, i)
	return legs
}

func (l *redirect) run(ctx context.Context, calls []invocation, replies []reply, hops int) {
	some, answers := make([]invocation, len(l.calls)), make([]reply, len(l.calls))
	for i, at := range l.calls {
		some[i] = calls[at]
	}
	if l.asking {
		l.to.ask(ctx, some, answers, hops)
	} else {
		l.to.run(ctx, some, answers, hops)
	}
	for i, at := range l.calls {
		replies[at] = answers[i]
	}
}

func (l *redirect) fail(replies []reply, err error) {
	for _, at := range l.calls {
		replies[at] = reply{err: err}
	}
}

// confused reports whether an error suggests that the Cluster's topology has changed.
func confused(err error) bool {
	var e *stint.Error
	return errors.As(err, &e) && slices.Contains([]string{"connection", "timeout", "cluster_down", "readonly", "master_down"}, e.Kind)
}
