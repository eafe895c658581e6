package redisstore

import (
	"context"
	_ "embed"
	"strconv"
)

//go:embed probe.lua
var probeText string

var probeScript = newScript(probeText)

// probe reports whether the server takes a script call that writes. It works
// while the node is stopped; the connection that it made is kept.
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
	n.settle(context.Background(), l, replies) // whose time it is, is no caller's
	return replies[0].err
}

// probeKey is a key that lives on the node. On a Cluster its name is found by
// trying, and again when the slot has moved.
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
