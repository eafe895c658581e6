package redisstore

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/redis/rueidis"

	"github.com/stintdev/stint"
)

// node is one server, or the master that a Sentinel set names. It is connected
// to when first needed, and again whenever it was lost. It is safe for use by
// many goroutines.
type node struct {
	name     string // of its shard: the address in a Cluster, else empty
	dialer   *dialer
	resolve  func(context.Context) (addr string, err error)
	cluster  *slotMap     // nil: there is none
	probed   atomic.Int64 // where the search for a key to probe by begins
	batchers batchers

	stopped atomic.Bool
	gone    atomic.Bool          // from the Cluster
	link    atomic.Pointer[link] // nil: not connected
	warned  warned
	mu      struct {
		sync.Mutex

		dialing *dialing
		closed  bool
	}
}

func newNode(addr string, d *dialer, m *slotMap) *node {
	return &node{name: addr, dialer: d, cluster: m, resolve: func(context.Context) (string, error) { return addr, nil }}
}

// call runs scripts in one round trip, in order, and fills one reply each. It
// takes at most Options.Timeout. A call that may have run is never repeated.
func (n *node) call(ctx context.Context, calls []invocation, replies []reply) {
	if !n.timed(calls) {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, n.dialer.opts.Timeout, errOverdue)
		defer cancel()
	}
	n.run(ctx, calls, replies, 0)
}

// errOverdue says that it was Options.Timeout that ended, not the caller.
var errOverdue = &notConnected{context.DeadlineExceeded}

// timed reports whether the connection itself ends these calls in time. Then
// no timer of our own is needed, which is a large part of what a lone check
// costs its caller.
func (n *node) timed(calls []invocation) bool {
	return n.cluster == nil && n.link.Load() != nil && calls[0].replicas == 0
}

// run is call for calls that have been sent on a number of times.
func (n *node) run(ctx context.Context, calls []invocation, replies []reply, hops int) {
	l, err := n.open(ctx)
	switch {
	case err == nil:
	case n.gone.Load(): // perhaps while it connected; nothing was sent
		n.cluster.route(ctx, n, calls, replies, hops)
		return
	default:
		failAll(replies, err)
		return
	}
	defer l.leave()
	l.run(ctx, n.dialer, calls, replies)
	if n.cluster != nil {
		n.cluster.redirect(ctx, redirect{to: n}, l, calls, replies, hops)
	}
	n.settle(ctx, l, replies)
}

// ask is run at a node that the slots of the calls are on their way to.
func (n *node) ask(ctx context.Context, calls []invocation, replies []reply, hops int) {
	l, err := n.open(ctx)
	if err != nil {
		failAll(replies, err)
		return
	}
	defer l.leave()
	for i := range calls {
		l.ask(ctx, n.dialer, &calls[i], &replies[i])
	}
	n.cluster.redirect(ctx, redirect{to: n, asking: true}, l, calls, replies, hops)
	n.settle(ctx, l, replies)
}

// probing is what alone is sent to a node that is stopped.
const probing = true

// open is connected, unless the node is stopped.
func (n *node) open(ctx context.Context) (*link, error) {
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

// settle explains the errors of a call, and lets go of a link that is no good
// any more.
func (n *node) settle(ctx context.Context, l *link, replies []reply) {
	for i := range replies {
		err := replies[i].err
		if err == nil {
			continue
		}
		if useless(err) {
			n.lose(l)
		}
		if lacksRight(err) {
			n.refusedRight(l)
		}
		replies[i].err = n.explain(ctx, err, l)
		if n.cluster != nil && confused(replies[i].err) {
			n.cluster.stale.Store(true)
		}
	}
}

// useless reports whether an error calls for a new connection: the old one
// broke, or it leads to a server that is no master any more.
func useless(err error) bool {
	if _, ok := errors.AsType[*stint.Error](err); ok { // of another node, and settled there
		return false
	}
	if answer, ok := errors.AsType[*rueidis.RedisError](err); ok {
		code := codeOf(answer.Error())
		return code == "READONLY" || code == "MASTERDOWN" || code == "NOAUTH"
	}
	return !timedOut(err) && !errors.Is(err, context.Canceled)
}

// lose forgets a link, so that the next call makes a new one.
func (n *node) lose(l *link) {
	if n.link.CompareAndSwap(l, nil) {
		n.dialer.retire(l)
	}
}

// stop closes the connections at once: nothing more is sent, and calls fail
// until start.
func (n *node) stop() {
	n.stopped.Store(true)
	n.disconnect()
}

// start lets calls through again.
func (n *node) start() { n.stopped.Store(false) }

// close is stop for good.
func (n *node) close() {
	n.mu.Lock()
	n.mu.closed = true
	n.mu.Unlock()
	n.stop()
}

// leave is close for a node of a Cluster that keeps nothing any more: calls in
// the air may end, and those that come go where their slot is.
func (n *node) leave() {
	n.gone.Store(true)
	n.mu.Lock()
	n.mu.closed = true
	n.callOffLocked()
	n.mu.Unlock()
	if l := n.link.Swap(nil); l != nil {
		n.dialer.retire(l)
	}
}

func (n *node) disconnect() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if l := n.link.Swap(nil); l != nil {
		n.dialer.drop(l)
	}
	n.callOffLocked()
}

// callOffLocked ends the connection in the making: nobody would close it.
func (n *node) callOffLocked() {
	d := n.mu.dialing
	n.mu.dialing = nil
	if d != nil && d.link != nil {
		d.link.cut()
	}
}

// refusal is the error of a call while nothing is sent.
func (n *node) refusal() error {
	return &stint.Error{
		Code: stint.CodeUnavailable, Kind: "stopped",
		Problem: "nothing is sent to the server " + n.place() + ": it is held to be down, or the store is closed",
	}
}

// place is where the node is, as far as it is known.
func (n *node) place() string {
	if n.name != "" {
		return n.name
	}
	return n.dialer.opts.String()
}
