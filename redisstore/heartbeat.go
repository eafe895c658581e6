package redisstore

import (
	"context"
	"crypto/rand"
	_ "embed"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/stintdev/stint"
)

//go:embed heartbeat.lua
var heartbeatText string

var heartbeatScript = newScript(heartbeatText)

// beatsMissed is the number of heartbeats after which a silent node counts as gone.
const beatsMissed = 5

// heartbeat announces this node in a sorted set of the store, counts the announced
// nodes, and compares the node's clock with the store's.
type heartbeat struct {
	topology *topology
	id       string // of this node, random
	key      string // one for all nodes; on a Cluster it lives on one of its servers
	lasts    string // µs that an announcement counts
	clock    func() int64

	begun atomic.Bool  // it may have been announced
	nodes atomic.Int64 // as last counted; 0: never
	doubt atomic.Int64 // beats until a smaller count is believed
	skew  atomic.Int64 // µs that the store's clock is ahead

	clocks clocks // of the goroutine that beats
}

// newHeartbeat begins to beat, until ctx ends.
func newHeartbeat(ctx context.Context, t *topology) *heartbeat {
	o := t.dialer.opts
	h := &heartbeat{
		clocks:   clocks{epoch: time.Now()},
		topology: t, id: rand.Text(), key: o.Prefix + ":nodes", clock: o.Clock,
		lasts: strconv.FormatInt(beatsMissed*o.Heartbeat.Microseconds(), 10),
	}
	if h.clock == nil {
		h.clock = func() int64 { return time.Now().UnixMicro() }
	}
	if o.Heartbeat > 0 {
		t.dialer.background(func() { h.beat(ctx) })
		t.dialer.every(ctx, o.Heartbeat, func() { h.beat(ctx) })
	}
	return h
}

// beat announces the node once. If that fails, the previous results stay.
func (h *heartbeat) beat(ctx context.Context) {
	n := h.topology.nodeOf(slotOf(h.key))
	if !n.reached(ctx) { // connecting is no part of the round trip that is measured
		return
	}
	h.begun.Store(true)
	before, sent := h.clock(), time.Now()
	a, err := h.send(ctx, n, h.lasts)
	after, took := h.clock(), time.Since(sent)
	if err != nil {
		h.topology.dialer.log.Debug("the heartbeat failed", "error", err)
		return
	}
	h.count(a)
	skew := a.now - (before + (after-before)/2) // the script ran about half-way
	h.skew.Store(skew)
	h.clocks.compare(h.topology.dialer, reading{
		store: time.Duration(a.now) * time.Microsecond, steady: sent.Sub(h.clocks.epoch) + took/2, unsure: took / 2,
		skew: time.Duration(skew) * time.Microsecond,
	})
}

// count stores the number of nodes. If the store no longer has this node, it lost the
// announcements, or all of them expired during an outage. The count then does not
// fall for beatsMissed heartbeats, which gives the other nodes time to announce
// themselves again. With too small a count each node would use too large a share of
// the limits if the store failed again.
func (h *heartbeat) count(a announced) {
	if !a.known && h.nodes.Load() > 0 {
		h.doubt.Store(beatsMissed)
	}
	if h.doubt.Load() > 0 {
		h.doubt.Add(-1)
		a.nodes = max(a.nodes, h.nodes.Load())
	}
	h.nodes.Store(a.nodes)
}

// leave withdraws the announcement, so that other nodes need not wait for its expiry.
func (h *heartbeat) leave() {
	n := h.topology.nodeOf(slotOf(h.key))
	if !h.begun.Load() || n.conn.Load() == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	if _, err := h.send(ctx, n, "0"); err != nil {
		h.topology.dialer.log.Debug("the announcement is left to run out", "error", err)
	}
}

// announced is what the store answers to a heartbeat.
type announced struct {
	now   int64 // the store's clock, µs
	nodes int64 // that count, with the one that asks
	known bool  // it counted already
}

func (h *heartbeat) send(ctx context.Context, n *node, lasts string) (announced, error) {
	replies := make([]reply, 1)
	n.send(ctx, []invocation{{script: heartbeatScript, keys: []string{h.key}, args: []string{h.id, lasts}}}, replies)
	if err := replies[0].err; err != nil {
		return announced{}, err
	}
	return readAnnounced(replies[0].data)
}

func readAnnounced(data string) (announced, error) {
	var a announced
	var known int
	if _, err := fmt.Sscanf(data, "%d %d %d", &a.now, &a.nodes, &known); err != nil {
		return announced{}, &stint.Error{Code: stint.CodeInternal, Kind: "reply", Problem: "the heartbeat's script returned " + strconv.Quote(data)}
	}
	a.known = known == 1
	return a, nil
}

// reached reports whether the node is connected, and connects it when it is
// not.
func (n *node) reached(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, n.dialer.opts.Timeout)
	defer cancel()
	c, err := n.open(ctx)
	if err == nil {
		c.leave()
	}
	return err == nil
}
