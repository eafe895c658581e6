package redisstore

import "context"

// slotMap is which node of a Cluster keeps which slot.
type slotMap struct{}

func (m *slotMap) keeps(n *node, slot uint16) bool { return true }

func (m *slotMap) follow(ctx context.Context, n *node, calls []invocation, replies []reply) {}
