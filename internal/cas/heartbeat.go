package cas

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// beatsMissed is the number of heartbeats after which a silent node counts as gone.
const beatsMissed = 5

// maxNodes bounds the announcements in the item of nodes.
const maxNodes = 1000

// heartbeat announces this node, counts the announced nodes, and compares clocks: that of
// the server with this node's, or, if the server has none, those of the other nodes.
type heartbeat struct {
	store *Store
	id    string // of this node, random
	end   context.CancelFunc
	ended sync.WaitGroup
	alone atomic.Bool // the last heartbeat counted this node alone

	mu struct {
		sync.Mutex

		begun  bool
		nodes  int                 // the last count; 0: none yet
		doubt  int                 // heartbeats until a smaller count is adopted
		clock  ClockStats          // zero: not measured yet
		others map[string]announce // of the last heartbeat
		warned bool                // a skew was logged
	}
}

// announce is the announcement of one node in the item of nodes.
type announce struct {
	At    int64 `json:"at"`    // the time of the node's own clock, in µs
	Until int64 `json:"until"` // when it runs out
}

// ClockStats compares clocks.
type ClockStats struct {
	// Skew is how far the clock of the server is ahead of this process's, to within half a
	// round trip. Where decisions follow the clocks of the nodes, it is how far that of
	// another node, the one furthest off, is ahead, to within two heartbeats.
	Skew     time.Duration
	Measured time.Time // by this process's clock
}

// maxSkew is the difference of clocks from which a store whose nodes decide by their own clocks
// warns.
const maxSkew = time.Second

func (s *Store) newHeartbeat() *heartbeat {
	ctx, end := context.WithCancel(context.Background())
	h := &heartbeat{store: s, id: rand.Text(), end: end}
	if s.options.Heartbeat > 0 {
		h.ended.Go(func() { h.run(ctx) })
	}
	return h
}

func (h *heartbeat) run(ctx context.Context) {
	tick := time.NewTicker(h.store.options.Heartbeat)
	defer tick.Stop()
	for {
		h.beat(ctx)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// beat announces the node once. If that fails, the previous results stay.
func (h *heartbeat) beat(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, h.store.options.Timeout)
	defer cancel()
	h.reachOthers(ctx)
	sent := time.Now()
	a, err := h.announce(ctx, beatsMissed*h.store.options.Heartbeat)
	h.store.transportOf(string(markNodes)).note(err)
	if err != nil {
		h.store.options.Logger.Debug("the heartbeat failed: the number of nodes and the clock skew stay those of the last one", "error", err)
		return
	}
	took := time.Since(sent)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mu.begun = true
	h.countLocked(a)
	if !a.Now.IsZero() {
		h.mu.clock = ClockStats{Skew: a.Now.Sub(sent.Add(took / 2)), Measured: time.Now()}
	}
}

// reachOthers reads a key from each shard but the one that has the announcements, so that
// Stats knows whether it answers.
func (h *heartbeat) reachOthers(ctx context.Context) {
	var all sync.WaitGroup
	for _, t := range h.store.transports {
		if t != h.store.transportOf(string(markNodes)) {
			all.Go(func() { _, _ = t.callLoad(ctx, []Load{{Key: t.probeKey()}}) })
		}
	}
	all.Wait()
}

func (h *heartbeat) announce(ctx context.Context, lasts time.Duration) (Announced, error) {
	if b, ok := h.store.backend.(Announcer); ok {
		return b.Announce(ctx, h.id, lasts)
	}
	return h.announceInItem(ctx, lasts)
}

// countLocked stores the number of nodes. If the store no longer has this node, it lost the
// announcements, or all of them ran out during an outage. The count then does not fall for
// beatsMissed heartbeats, which gives the other nodes time to announce themselves again.
// With too small a count each node would use too large a share of the limits if the store
// failed again.
func (h *heartbeat) countLocked(a Announced) {
	if !a.Known && h.mu.nodes > 0 {
		h.mu.doubt = beatsMissed
	}
	if h.mu.doubt > 0 {
		h.mu.doubt--
		a.Nodes = max(a.Nodes, h.mu.nodes)
	}
	h.mu.nodes = a.Nodes
	h.alone.Store(a.Nodes == 1)
}

// announceInItem writes the announcement into the item of nodes.
func (h *heartbeat) announceInItem(ctx context.Context, lasts time.Duration) (Announced, error) {
	s := h.store
	key := string(markNodes)
	t := s.transportOf(key)
	if t.stopped.Load() {
		return Announced{}, t.refusal()
	}
	for attempt := range maxLosses {
		loads := []Load{{Key: key, Horizon: beatsMissed * s.options.Heartbeat}}
		server, err := s.backend.Load(ctx, loads)
		if err = errors.Join(err, loads[0].Err); err != nil {
			return Announced{}, err
		}
		now := server
		if now.IsZero() {
			now = time.Now()
		}
		nodes := map[string]announce{}
		_ = json.Unmarshal(loads[0].Item.Value, &nodes) // what cannot be read is replaced
		known := h.update(nodes, now, lasts)
		value, err := json.Marshal(nodes)
		if err != nil {
			return Announced{}, err
		}
		swaps := []Swap{{Key: key, Old: loads[0].Item.Version, Memo: loads[0].Item.Memo, Value: value, Version: newVersion(), TTL: beatsMissed*s.options.Heartbeat + s.options.Slack}}
		_, err = s.backend.Swap(ctx, swaps)
		err = failures(swaps, err)
		if swaps[0].Outcome == Done {
			return Announced{Now: server, Nodes: len(nodes), Known: known}, nil
		}
		if err != nil || !pause(ctx, attempt+2) {
			return Announced{}, errors.Join(err, ctx.Err())
		}
	}
	return Announced{}, contended(maxLosses, nil)
}

// update writes the announcement of this node into those of all nodes, drops those that
// have run out, and compares the clocks of the nodes. It reports whether this node was
// announced.
func (h *heartbeat) update(nodes map[string]announce, now time.Time, lasts time.Duration) (known bool) {
	h.compare(nodes)
	for id, a := range nodes {
		if a.Until <= now.UnixMicro() || id != h.id && len(nodes) >= maxNodes {
			delete(nodes, id)
		}
	}
	_, known = nodes[h.id]
	if delete(nodes, h.id); lasts > 0 {
		nodes[h.id] = announce{At: time.Now().UnixMicro(), Until: now.Add(lasts).UnixMicro()}
	}
	return known
}

// compare compares this node's clock with those of the nodes that have announced
// themselves since the last heartbeat. Such an announcement is at most two heartbeats old.
func (h *heartbeat) compare(nodes map[string]announce) {
	now := time.Now()
	worst := time.Duration(0)
	h.mu.Lock()
	defer h.mu.Unlock()
	for id, a := range nodes {
		if before, seen := h.mu.others[id]; id == h.id || !seen || before.At == a.At {
			continue
		}
		skew := time.UnixMicro(a.At).Sub(now)
		if skew < 0 { // it is behind, or its announcement is old
			skew = min(0, skew+2*h.store.options.Heartbeat)
		}
		if skew.Abs() > worst.Abs() {
			worst = skew
		}
	}
	h.mu.others = nodes
	h.mu.clock = ClockStats{Skew: worst, Measured: now}
	h.warnLocked(worst)
}

// warnLocked logs when the clocks of nodes begin to differ, and when they agree again.
func (h *heartbeat) warnLocked(skew time.Duration) {
	log := h.store.options.Logger
	switch {
	case !h.mu.warned && skew.Abs() >= maxSkew && h.store.options.Clock == nil:
		h.mu.warned = true
		log.Warn("the clocks of the nodes differ: a node that is ahead grants units early, and other nodes deny the keys that it charged until their clocks catch up (keep the clocks in step)",
			"other_node_ahead", skew.Round(time.Millisecond))
	case h.mu.warned && skew.Abs() < maxSkew/2:
		h.mu.warned = false
		log.Info("the clocks of the nodes are in step again")
	}
}

// close ends the heartbeats and withdraws the announcement, so that other nodes need not
// wait until it runs out.
func (h *heartbeat) close() {
	h.end()
	h.ended.Wait()
	h.mu.Lock()
	begun := h.mu.begun
	h.mu.begun = false
	h.mu.Unlock()
	if !begun {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	if _, err := h.announce(ctx, 0); err != nil {
		h.store.options.Logger.Debug("the announcement could not be withdrawn and will run out", "error", err)
	}
}
