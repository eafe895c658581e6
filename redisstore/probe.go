package redisstore

import (
	"context"
	_ "embed"
	"strconv"
)

//go:embed probe.lua
var probeText string

var probeScript = newScript(probeText)

// probe returns nil if the server runs a script that writes. It also works while the
// node is stopped, and keeps the connection that it made.
func (n *node) probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, n.dialer.opts.Timeout)
	defer cancel()
	l, err := n.connected(ctx, probing)
	if err != nil {
		return err
	}
	defer l.leave()
	replies := make([]reply, 1)
	calls := []invocation{{script: probeScript, keys: []string{n.probeKey()}}}
	l.run(ctx, n.dialer, calls, replies)
	n.settle(context.Background(), l, replies) // the timeout is the probe's own, not a caller's
	return replies[0].err
}

// probeKey returns a key in a slot that the node owns. On a Cluster it tries numbered
// names, and searches again after the slot has moved.
func (n *node) probeKey() string {
	prefix := n.dialer.opts.Prefix + ":probe"
	if n.cluster == nil {
		return prefix
	}
	for i := n.probed.Load(); i < 1<<18; i++ { // a node with one slot is found after some 16,000
		key := prefix + strconv.FormatInt(i, 10)
		if n.cluster.keeps(n, slotOf(key)) {
			n.probed.Store(i)
			return key
		}
	}
	n.probed.Store(0)
	return prefix
}
