package redisstore

import (
	"context"
	_ "embed"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/redis/rueidis"

	"github.com/stintdev/stint"
)

// node is one server, or the master that the sentinels name. It connects on first
// use, and again after it lost the connection. It is safe for concurrent use.
type node struct {
	name     string // name of its shard: the address in a Cluster, empty for a single server
	dialer   *dialer
	resolve  func(context.Context) (addr string, err error)
	cluster  *slotMap     // nil outside a Cluster
	probed   atomic.Int64 // number at which the search for a probe key begins
	batchers batchers
	clocks   clocks

	stopped atomic.Bool
	gone    atomic.Bool          // the node has left the Cluster
	conn    atomic.Pointer[conn] // nil: not connected
	warned  warned
	mu      struct {
		sync.Mutex

		dialing *attempt
		closed  bool
	}
}

func newNode(addr string, d *dialer, m *slotMap) *node {
	return &node{name: addr, dialer: d, cluster: m, resolve: func(context.Context) (string, error) { return addr, nil }}
}

// send runs scripts in one round trip, in order, and stores one reply for each. It
// takes at most Options.Timeout. A call that may have run is never repeated.
func (n *node) send(ctx context.Context, calls []invocation, replies []reply) {
	// The timeout of the store's own connection suffices for one server and no wait for
	// replicas. A separate timer is a large part of the cost of a lone check.
	if n.cluster != nil || n.conn.Load() == nil || calls[0].replicas > 0 || n.dialer.opts.Client != nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, n.dialer.opts.Timeout, errTimeout)
		defer cancel()
	}
	n.exec(ctx, calls, replies, 0, !asking)
}

// errTimeout is the cause of a context that Options.Timeout ended, not the caller.
var errTimeout = &notConnected{context.DeadlineExceeded}

// exec is send without the timeout. hops is how often the calls were redirected. asking
// is set if this node is still importing the slots of the calls.
func (n *node) exec(ctx context.Context, calls []invocation, replies []reply, hops int, asking bool) {
	c, err := n.open(ctx)
	switch {
	case err == nil:
	case n.gone.Load() && !asking: // perhaps while it connected; nothing was sent
		n.cluster.route(ctx, n, calls, replies, hops)
		return
	default:
		failAll(replies, err)
		return
	}
	defer c.leave()
	if asking {
		for i := range calls {
			c.ask(ctx, n.dialer, &calls[i], &replies[i])
		}
	} else {
		c.exec(ctx, n.dialer, calls, replies)
	}
	if n.cluster != nil {
		n.cluster.redirect(ctx, redirect{to: n, asking: asking}, c, calls, replies, hops)
	}
	n.settle(ctx, c, replies)
}

// probing marks a connection attempt as a probe. Only probes reach a stopped node.
const probing = true

// open returns an entered conn, or an error if the node is stopped.
func (n *node) open(ctx context.Context) (*conn, error) {
	if n.stopped.Load() {
		return nil, n.refusal()
	}
	return n.connected(ctx, !probing)
}

func failAll(replies []reply, err error) {
	for i := range replies {
		replies[i].err = err
	}
}

// settle replaces the errors of a call by their explanation, and drops a conn that is
// useless.
func (n *node) settle(ctx context.Context, c *conn, replies []reply) {
	for i := range replies {
		err := replies[i].err
		if err == nil {
			continue
		}
		if useless(err) {
			n.lose(c)
		}
		if deniedByACL(err) {
			n.recheckACL(c)
		}
		replies[i].err = n.explain(ctx, err, c)
		if n.cluster != nil && confused(replies[i].err) {
			n.cluster.stale.Store(true)
		}
	}
}

// useless reports whether an error calls for a new connection: the old connection
// broke, does not authenticate, or leads to a server that is not a master any more.
func useless(err error) bool {
	if _, ok := errors.AsType[*stint.Error](err); ok { // another node has settled it
		return false
	}
	if answer, ok := errors.AsType[*rueidis.RedisError](err); ok {
		code := codeOf(answer.Error())
		return code == "READONLY" || code == "MASTERDOWN" || code == "NOAUTH"
	}
	return !timedOut(err) && !errors.Is(err, context.Canceled)
}

// lose forgets a conn, so that the next call makes a new one.
func (n *node) lose(c *conn) {
	if n.conn.CompareAndSwap(c, nil) {
		n.dialer.retire(c)
	}
}

// stop closes the connections at once. Until start, nothing is sent and calls fail.
func (n *node) stop() {
	n.stopped.Store(true)
	n.mu.Lock()
	defer n.mu.Unlock()
	if c := n.conn.Swap(nil); c != nil {
		n.dialer.drop(c)
	}
	n.callOffLocked()
}

// start lets calls through again.
func (n *node) start() { n.stopped.Store(false) }

// close stops the node permanently.
func (n *node) close() {
	n.mu.Lock()
	n.mu.closed = true
	n.mu.Unlock()
	n.stop()
}

// leave closes a node that owns no slot of the Cluster any more. Calls in flight may
// finish, and later calls go to the owner of their slot.
func (n *node) leave() {
	n.gone.Store(true)
	n.mu.Lock()
	n.mu.closed = true
	n.callOffLocked()
	n.mu.Unlock()
	if c := n.conn.Swap(nil); c != nil {
		n.dialer.retire(c)
	}
}

// callOffLocked aborts a connection attempt in progress, because nothing would close
// its connection later.
func (n *node) callOffLocked() {
	d := n.mu.dialing
	n.mu.dialing = nil
	if d != nil && d.conn != nil {
		d.conn.cut()
	}
}

// refusal returns the error of a call to a node that is stopped or closed.
func (n *node) refusal() error {
	return &stint.Error{
		Code: stint.CodeUnavailable, Kind: "stopped",
		Problem: "nothing is sent to the server " + n.place() + ": it is marked as down, or the store is closed",
	}
}

// place returns the node's address, or the store's addresses if the node has no name.
func (n *node) place() string {
	if n.name != "" {
		return n.name
	}
	return n.dialer.opts.String()
}

//go:embed probe.lua
var probeText string

var probeScript = newScript(probeText)

// probe returns nil if the server runs a script that writes. It also works while the
// node is stopped, and keeps the connection that it made.
func (n *node) probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, n.dialer.opts.Timeout)
	defer cancel()
	c, err := n.connected(ctx, probing)
	if err != nil {
		return err
	}
	defer c.leave()
	replies := make([]reply, 1)
	calls := []invocation{{script: probeScript, keys: []string{n.probeKey()}}}
	c.exec(ctx, n.dialer, calls, replies)
	n.settle(context.Background(), c, replies) // the timeout is the probe's own, not a caller's
	return replies[0].err
}

// probeKey returns a key in a slot that the node owns. On a Cluster it tries numbered
// names, and searches again after the slot has moved.
func (n *node) probeKey() string {
	prefix := n.dialer.opts.Prefix + ":probe"
	if n.cluster == nil {
		return prefix
	}
	for i := n.probed.Load(); i < 1<<18; i++ { // a node with one slot is found after about 16,000 names
		key := prefix + strconv.FormatInt(i, 10)
		if n.cluster.keeps(n, slotOf(key)) {
			n.probed.Store(i)
			return key
		}
	}
	n.probed.Store(0)
	return prefix
}
