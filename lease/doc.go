// Package lease decides hot keys without a round trip.
//
// Use it around a [stint.Store] that many nodes share. When a check of a hot key
// goes to the store, the Store that [New] returns asks for extra tokens in the same
// call, and decides the next checks of that key from those tokens. Only claims
// whose [stint.Policy] says [stint.Leased] or [stint.Partitioned] are decided this
// way; all others go to the store. With a guard the order is
// lease.New(guard.New(store)): guard.New refuses a store that leases. Package layered
// assembles both.
//
// A lease is tokens that are already charged, so a node never admits what the
// store did not grant. A lease ends one lease time L after its call was sent, and
// never outlives its window. L is measured by this node's monotonic clock, plus
// what the wall clock gains on it while the machine is suspended. Every admission
// was therefore charged at most L before it happened, whatever the number of
// nodes, and the laws of the algorithms hold with time stretched by L:
//
//   - bucket and gcra: at most C + r·(t + L) in any t;
//   - log: at most N in any W − L;
//   - fixed window and quota: at most N in each;
//   - counter of S buckets: at most N in any W − W/S − L.
//
// A partitioned claim is leased for up to 3 s from a smaller limit that leaves room
// for that time, so its own limit is never exceeded: see docs/leases.md.
//
// The size of a lease follows the demand. It never exceeds an eighth of what the
// store has left, or what refills in a quarter of L, whichever is more. When little
// is left, leases shrink to nothing and every check asks the store. Unspent tokens
// are refunded when the key is idle, when the lease ends, and when the Store is
// closed.
//
// Each node has a deny cache, so that a key over its limit does not cost a call for
// each check. A denial is remembered until its retry time, but at least
// min(L, C/r)/4 (L/4 for a log or counter) and at most L. RetryAfter of a remembered
// denial is the end of that time, or the store's own retry time if that is later.
// At of a leased decision is when its token was charged. A refund needs that time.
//
// The way through the package: store.go decides a claim, and groups.go groups, from the
// tokens in entry.go; fetch.go is the call to the store, size.go the size of a lease, and
// renewal.go the background goroutine.
//
// A node that crashes strands the tokens that it holds: at most one lease of each
// key. Degraded decisions grant nothing. While the store fails, a node spends what
// it holds for at most L, and then the failure policy decides.
package lease
