package redisstore

import (
	"context"
	"crypto/rand"
	_ "embed"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stintdev/stint"
)

//go:embed heartbeat.lua
var heartbeatText string

var heartbeatScript = newScript(heartbeatText)

//go:embed clock.lua
var clockText string

var clockScript = newScript(clockText)

// beatsMissed is the number of heartbeats after which a silent node counts as gone.
const beatsMissed = 5

// heartbeat announces this node in a sorted set of the store, counts the announced
// nodes, and compares the node's clock with that of every server of the store: on a
// Cluster each server decides its keys by a clock of its own.
type heartbeat struct {
	topology *topology
	id       string // id of this node, random
	key      string // shared by all nodes; on a Cluster it is on one of the servers
	lasts    string // µs for which an announcement counts
	clock    func() time.Time

	begun atomic.Bool  // the node may have been announced
	nodes atomic.Int64 // the last count; 0: none yet
	doubt atomic.Int64 // heartbeats until a smaller count is adopted
	epoch time.Time    // start of the monotonic clock of readings
}

// newHeartbeat begins to beat, until ctx ends.
func newHeartbeat(ctx context.Context, t *topology) *heartbeat {
	o := t.dialer.opts
	h := &heartbeat{
		epoch:    time.Now(),
		topology: t, id: rand.Text(), key: o.Prefix + ":nodes", clock: o.Clock,
		lasts: strconv.FormatInt(beatsMissed*o.Heartbeat.Microseconds(), 10),
	}
	if h.clock == nil {
		h.clock = time.Now
	}
	if o.Heartbeat > 0 {
		t.dialer.background(func() { h.beat(ctx) })
		t.dialer.every(ctx, o.Heartbeat, func() { h.beat(ctx) })
		if t.one == nil { // a server that does not answer must not delay the announcement
			t.dialer.every(ctx, o.Heartbeat, func() { h.compareOthers(ctx) })
		}
	}
	return h
}

// beat announces the node once. If that fails, the previous results stay.
func (h *heartbeat) beat(ctx context.Context) {
	n := h.topology.nodeOf(slotOf(h.key))
	if !n.reached(ctx) { // so that the measured round trip does not include connecting
		return
	}
	h.begun.Store(true)
	var a announced
	err := h.compare(n, func() (now int64, err error) {
		a, err = h.send(ctx, n, h.lasts)
		return a.now, err
	})
	if err != nil {
		h.topology.dialer.log.Debug("the heartbeat failed: the number of nodes and the clock skew stay those of the last one", "error", err)
		return
	}
	h.count(a)
}

// compareOthers compares the clocks of all servers but the one that has the announcements.
func (h *heartbeat) compareOthers(ctx context.Context) {
	var comparing sync.WaitGroup
	announced := h.topology.nodeOf(slotOf(h.key))
	for _, n := range h.topology.all() {
		if n == announced {
			continue
		}
		comparing.Go(func() {
			if !n.reached(ctx) {
				return
			}
			if err := h.compare(n, func() (int64, error) { return n.time(ctx) }); err != nil {
				h.topology.dialer.log.Debug("the clock of a server could not be read: its skew stays that of the last measurement", "shard", n.name, "error", err)
			}
		})
	}
	comparing.Wait()
}

// compare compares the clock of a server, which read returns in µs, with that of this node.
func (h *heartbeat) compare(n *node, read func() (int64, error)) error {
	before, sent := h.clock().UnixMicro(), time.Now()
	now, err := read()
	after, took := h.clock().UnixMicro(), time.Since(sent)
	if err != nil {
		return err
	}
	skew := now - (before + (after-before)/2) // the server read its clock about half-way
	n.clocks.compare(h.topology.dialer, n.name, reading{
		store: time.Duration(now) * time.Microsecond, steady: sent.Sub(h.epoch) + took/2, unsure: took / 2,
		skew: time.Duration(skew) * time.Microsecond, at: sent.Add(took / 2),
	})
	return nil
}

// time returns the server's time in µs.
func (n *node) time(ctx context.Context) (int64, error) {
	replies := make([]reply, 1)
	n.send(ctx, []invocation{{script: clockScript}}, replies)
	if err := replies[0].err; err != nil {
		return 0, err
	}
	return strconv.ParseInt(replies[0].data, 10, 64)
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
		h.topology.dialer.log.Debug("the announcement could not be withdrawn and will expire", "error", err)
	}
}

// announced is the store's answer to a heartbeat.
type announced struct {
	now   int64 // the store's clock, µs
	nodes int64 // announced nodes, including this one
	known bool  // this node was announced before
}

func (h *heartbeat) send(ctx context.Context, n *node, lasts string) (announced, error) {
	replies := make([]reply, 1)
	n.send(ctx, []invocation{{script: heartbeatScript, keys: []string{h.key}, args: []string{h.id, lasts}}}, replies)
	if err := replies[0].err; err != nil {
		return announced{}, err
	}
	var a announced
	var known int
	if _, err := fmt.Sscanf(replies[0].data, "%d %d %d", &a.now, &a.nodes, &known); err != nil {
		return announced{}, &stint.Error{Code: stint.CodeInternal, Kind: "reply", Problem: "the heartbeat's script returned " + strconv.Quote(replies[0].data)}
	}
	a.known = known == 1
	return a, nil
}

// reached reports whether the node is connected. It connects the node if necessary.
func (n *node) reached(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, n.dialer.opts.Timeout)
	defer cancel()
	c, err := n.open(ctx)
	if err == nil {
		c.leave()
	}
	return err == nil
}

// clocks compares the clock of a server with that of this node at each heartbeat. It
// logs a jump and a skew that change decisions, each change once.
type clocks struct {
	mu     sync.Mutex
	last   reading // guarded by mu
	known  bool    // guarded by mu: last is set
	skewed bool    // guarded by mu: a skew was logged
}

// reading is one measurement of the clocks, exact to half a round trip.
type reading struct {
	store  time.Duration // since the Unix epoch
	steady time.Duration // this process's monotonic clock
	skew   time.Duration // how far the store's clock is ahead of the node's
	unsure time.Duration // half of the round trip
	at     time.Time
}

const (
	// maxSkew is the skew from which a node that decides by its own clock warns.
	maxSkew = 100 * time.Millisecond
	// maxJump is the backward step of the store's clock, between heartbeats, from which
	// it warns.
	maxJump = 100 * time.Millisecond
)

func (c *clocks) compare(d *dialer, shard string, now reading) {
	c.mu.Lock()
	defer c.mu.Unlock()
	log := d.log
	if shard != "" {
		log = log.With("shard", shard)
	}
	if c.known {
		c.warnOfJump(log, now)
	}
	if d.opts.Clock != nil {
		c.warnOfSkew(log, now)
	}
	c.last, c.known = now, true
}

// latest returns the last reading, and false if there is none.
func (c *clocks) latest() (reading, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last, c.known
}

// warnOfJump warns if the store's clock went back: somebody set it, or another server
// became the master.
func (c *clocks) warnOfJump(log *slog.Logger, now reading) {
	back := (now.steady - c.last.steady) - (now.store - c.last.store)
	if back-now.unsure-c.last.unsure < maxJump {
		return
	}
	log.Warn("the store's clock went back: callers that were charged before wait longer by that time, once (keep the clocks of all servers in step)",
		"back", back.Round(time.Millisecond))
}

// warnOfSkew warns if this node decides by its own clock and that clock differs from the
// store's.
func (c *clocks) warnOfSkew(log *slog.Logger, now reading) {
	off := now.skew.Abs() - now.unsure
	switch {
	case !c.skewed && off >= maxSkew:
		c.skewed = true
		log.Warn("this node decides by its own clock, which differs from the store's: if it is ahead, it grants units early, and other nodes deny the keys that it charged until their clocks catch up (keep the clocks in step, or let the store's clock decide)",
			"node_ahead", -now.skew.Round(time.Millisecond))
	case c.skewed && off < maxSkew/2:
		c.skewed = false
		log.Info("this node's clock is in step with the store's again", "node_ahead", -now.skew.Round(time.Millisecond))
	}
}
