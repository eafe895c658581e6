// Package cas is a [stint.Store] over any server that can compare and swap.
//
// A [Backend] reads items, and writes an item if its version is still the one that was
// read. [Store] does the rest in a bounded loop: load, decide in Go, swap. A backend knows
// nothing of limits. The package of a backend has a type of its own around [Store], options
// and a URL, as package redisstore does.
//
// The way of a claim through the package: groups.go cuts the groups of a call into one call
// for each item, lane.go queues the calls of one item, round.go and decide.go decide those of a
// queue together, and transport.go takes the reads and writes of many rounds to a server
// in few calls. cache.go saves the read of items that this node has just written,
// and clock.go tells the time for them.
// unanswered.go finds out what became of a write without an answer, and across.go
// writes the items of a group if the server has no transactions. docs/decisions/034 says
// why.
//
// The package promises, for every backend that keeps the contract of [Backend]:
//
//   - A denial or a peek is one read. A charge is one write, and a read before it unless this
//     node wrote the item last (see cache).
//   - Nothing is charged twice, whatever answers are lost.
//   - An error other than CodeTimeout and CodeCanceled means that nothing was charged.
//   - A node has one round of a key under way, whatever the number of callers.
//   - Limits that callers bring never share an item with other limits.
package cas
