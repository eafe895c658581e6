// Package lease decides hot keys without a round trip.
//
// Use it around a [stint.Store] that many nodes share: [New] wraps it in one
// that takes, with a check that asks the store anyway, some more of a key that
// is asked for often, and decides the next checks of that key from what it
// holds. Only claims whose [stint.Policy] says [stint.Leased] or
// [stint.Partitioned] are decided so; all others pass. Where the store is guarded
// too, the order is lease.New(guard.New(store)): guard.New refuses leases.
//
// A lease is tokens that are already charged, so nothing is ever admitted that
// the store did not grant. It ends one lease time L after its call was sent, by
// this node's own clock, and with its window: the monotonic one, and what the
// wall clock gains on it while the machine is suspended. Every admission was
// therefore charged at most L before it happened, whatever the number of nodes,
// and the laws of the algorithms hold with time stretched by L:
//
//   - bucket and gcra: at most C + r·(t + L) in any t;
//   - log: at most N in any W − L;
//   - fixed window and quota: at most N in each;
//   - counter of S buckets: at most N in any W − W/S − L.
//
// A partitioned claim is leased for up to 3 s from a limit that leaves room for
// that, so its own limit is never passed: see docs/leases.md.
//
// How much is taken follows how much is asked for, and never passes an eighth
// of what the store has left, or what refills in a quarter of L: when little is
// left, leases shrink to nothing, and every check asks the store. What is left
// of a lease goes back when the key is idle, when the lease ends, and when the
// store is closed.
//
// That the store has nothing left is remembered for a short time, so that a key
// over its limit is not asked for again and again: until its retry time, but at
// least min(L, C/r)/4 (of a log or counter L/4) and at most L. The answer's
// RetryAfter is the end of that memory, or the store's own where that is later.
// At of a leased decision is when its token was charged: what a give-back needs.
//
// A node that crashes strands what it holds: at most one lease of each key.
// Degraded decisions grant nothing, so while the store fails what a node holds
// lasts for at most L, and then the failure policy decides.
package lease
