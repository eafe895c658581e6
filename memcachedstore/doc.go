// Package memcachedstore implements [stint.Store] on Memcached 1.5 or newer. All processes
// that use the same servers and the same prefix share one set of limits.
//
// Use [New] when several processes limit the same callers and Memcached is there anyway.
// Package [github.com/stintdev/stint/memcachedstore/memcachedopen] opens it with a guard,
// which decides while a server fails, and with leases. Without a guard a server failure is
// an error of the call. Package redisstore forgets nothing under memory pressure, and does
// not depend on the clocks of the processes.
//
// It promises:
//
//   - Decisions equal those of package stint, at the clock of the process that decides.
//     Memcached has no clock that a check could use, so keep the clocks of the processes in
//     step. Stats tells how far they differ, and the store warns from a second on.
//   - A group of claims on one key is charged as one. A group across keys is charged key by
//     key, and what was charged is undone if another key of the group is lost. No limit is
//     exceeded meanwhile, but another check may be denied.
//   - Checks that wait at the same time share round trips. A check on a key costs a write, and
//     a read before it unless this process wrote the key last; a denial and a peek cost a read.
//     A hot key has one write in flight per node,
//     which carries every check that waits for it.
//   - A write is made only if the item is still the one that was read. A node that lost a
//     key three times in a row locks it against other nodes that lost it as often.
//   - A call that may have written is never repeated unless it is certain that it charges
//     once. Its error has CodeTimeout or CodeCanceled.
//   - Each key lives on one server. A server that joins or leaves the list moves its own
//     keys alone; those have their whole allowance again. A server that fails keeps its keys:
//     the nodes would otherwise disagree about where a key is.
//   - [New] needs no reachable server, and the store recovers by itself.
//
// It does not promise that a count stays: Memcached evicts items when its memory is full,
// and loses all of them when it restarts or after flush_all. A key without an item has its
// whole allowance again. Stats and the metric store_evictions count evictions. Give the
// store servers of its own, with enough memory for the keys of the longest window.
//
// The store uses neither SASL nor TLS. Let only the nodes reach the servers.
//
// The way through the package: store.go and internal/cas take claims, backend.go reads and
// writes items, key.go chooses the server and the key of an item, server.go has the
// connections, conn.go speaks the text protocol, and errors.go explains what a server
// answers.
package memcachedstore
