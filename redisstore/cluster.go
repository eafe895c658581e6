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

// slotMap is which node of a Cluster keeps which slot. It learns from the
// nodes: from their list of slots, and from each that answers that a slot is
// elsewhere.
type slotMap struct {
	dialer *dialer
	owners [slots]atomic.Pointer[node] // nil: not known
	entry  atomic.Pointer[node]        // who is asked about a slot that nobody is known to keep
	stale  atomic.Bool                 // something says that the map is out of date

	mu struct {
		sync.Mutex

		nodes map[string]*node // by address: the masters, or before they are known the given addresses
	}
}

const (
	// glance is how often it is looked whether the map must be learnt anew.
	glance = 500 * time.Millisecond
	// glances is after how many of them it is learnt anew anyway.
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

// nodeOf returns the node that keeps a slot, as far as is known; never nil.
func (m *slotMap) nodeOf(slot uint16) *node {
	if n := m.owners[slot].Load(); n != nil && !n.gone.Load() {
		return n
	}
	return m.entry.Load()
}

func (m *slotMap) keeps(n *node, slot uint16) bool { return m.owners[slot].Load() == n }

// nodeAt returns the node of an address, and begins to connect to a new one.
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

// refresh learns the map from the first node that tells it: of those that are
// known and in use, else of the given addresses.
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

// learn takes over the map of one node; false when it does not tell.
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

// adopt makes the shards the map. Nodes that keep no slot any more are left.
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

// route sends the calls of a node that has left to those that keep their slots
// now.
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

// tooMany is how often a call is sent on before the cluster counts as confused.
const tooMany = 8

// redirect sends calls on that the server of a leg did not run, because their
// slot is elsewhere, or on its way.
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

// told is the node that a redirection names. MOVED changes the map; ASK is
// about one call.
func (m *slotMap) told(r redirection) *node {
	n := m.nodeAt(r.addr)
	if !r.asking {
		m.owners[r.slot].Store(n)
		m.stale.Store(true)
	}
	return n
}

// pause waits until it is worth trying a slot again that is on its way; false
// when the time of the call is over.
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

// redirect is the calls that go on together.
type redirect struct {
	to     *node
	asking bool  // by ASKING, to a node that the slot is on its way to
	later  bool  // again, when the slot has moved on
	calls  []int // where they stand
}

// travel adds call i to the leg that goes its way.
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

// confused reports whether an error says that the cluster may not be as it was.
func confused(err error) bool {
	var e *stint.Error
	return errors.As(err, &e) && slices.Contains([]string{"connection", "timeout", "cluster_down", "readonly", "master_down"}, e.Kind)
}
