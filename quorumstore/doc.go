// Package quorumstore implements [stint.Store] on 3, 5 or 7 Redis or Valkey servers that know
// nothing of each other. It stays exact while a minority of them is down, frozen, cut off,
// or has lost its data.
//
// Use [New] for limits that must hold through the loss of a server: a failover of Redis
// loses the last moments, and this store loses nothing. A check costs more: see
// docs/stores.md. Package [github.com/stintdev/stint/quorumstore/quorumopen] opens it with
// a guard, which decides while too few servers answer, and with leases. Without a guard such
// a failure is an error of the call.
//
// It promises:
//
//   - Decisions equal those of package stint, at the lower median of the clocks of the
//     servers that answered, whatever minority of them is killed, frozen, cut off, restarted
//     empty or restarted from an old disk, at any moment. Nothing is admitted twice.
//   - A group of claims on one key is charged as one. A group across keys is charged key by
//     key, and what was charged is undone if another key of the group is lost. No limit is
//     exceeded meanwhile, but another check may be denied.
//   - Each key is a register that a majority agrees on (CASPaxos; Rystsov 2018). A check on
//     a key that this process wrote last costs one round trip to a majority, another check
//     two or three; a denial and a peek cost a read. Checks that wait at the same time share
//     round trips.
//   - A call that may have written is never repeated unless it is certain that it charges
//     once. Its error has CodeTimeout or CodeCanceled.
//   - A server that lost its data, or was started again, takes part at once in what it
//     knows: it counts again for a limit once it is older than the time after which that
//     limit forgets, or once it is repaired. The store repairs such servers by itself.
//   - With no majority of servers that are old enough, checks fail with CodeUnavailable.
//   - [New] needs no reachable server, and the store recovers by itself. The servers of a new
//     quorum must all be reachable and empty once, with clocks that agree, so that none of them
//     can have forgotten anything.
//
// It does not survive the loss of data on a majority of the servers within the time that a
// limit remembers: that is refused, not forgotten, until the servers are old enough. All
// clocks must agree to a second; a server whose clock does not is left out.
//
// The servers must not replicate, must not be members of a Cluster, and must not evict keys.
//
// The way through the package: store.go and internal/cas take claims, backend.go reads and
// writes items, proposal.go runs a round of prepare and accept, choose.go takes the newest
// state of a majority, value.go divides an item into classes of life, and members.go talks to
// the servers and compares their clocks. birth.go marks servers that are new or have
// restarted, disown.go takes the marks of those whose clocks were wrong, repair.go has them
// learn what they forgot, and maintain.go does all three in the background; replace.go gives
// them another list. acceptor.go says what a server does,
// redis_server.go asks one to do it by call.lua, and pool.go and conn.go connect to it.
// docs/decisions/038 has the rules.
package quorumstore
