// Package redisstore implements [stint.Store] on Redis or Valkey. All processes
// that use the same servers and the same prefix share one set of limits.
//
// Use [New] when several processes limit the same callers. It works with a single
// server, with a Cluster, and with a master under Sentinel, all of version 6.2 or
// newer. Package [github.com/stintdev/stint/redisstore/redisopen] opens it with a guard,
// which decides while the servers fail, and with leases. Without a guard a server failure
// is an error of the call.
//
// It promises:
//
//   - Decisions equal those of package stint, to the microsecond. Each call runs
//     one atomic script at the server's own time, so the clocks of the processes
//     do not matter. Checks that wait at the same time share one round trip.
//   - On a Cluster, a group whose keys are in several slots is charged slot by
//     slot. If one slot denies the group, the store refunds the other slots. No
//     caller ever gets more than its limit. Until the refund arrives, for up to
//     one round trip, the temporary charge may deny other callers, and a charged
//     key loses what it would have refilled in that time. A charge whose outcome
//     is unknown stays. So does a charge on a leaky bucket, or a refund that is
//     part of the group, if another caller took the rest between the group's
//     dry run and its charge. Keys with the same first part (see [stint.JoinKey])
//     are always in one slot.
//   - A server holds at most two unanswered calls of 256 claims each (more, if a
//     single group has more), for at most Options.Timeout. This bound applies
//     separately to each number of replicas that claims ask for. A check whose
//     context ends while it is queued is not sent.
//   - A call that may have run is never repeated. Its error has CodeTimeout or
//     CodeCanceled. Any other error means that nothing was charged, with three
//     exceptions. Kind "replicas": the charge stands, at the master and at the
//     replicas that have it. Kinds "script" and "garbled": the script failed
//     part-way, or this program does not understand its reply. Both are bugs, or
//     come from two versions that share one store.
//   - [New] needs no reachable server. The store recovers by itself from a
//     restarted server, a promoted replica and a moved slot.
//   - Limits hold for one master per key. A master that is cut off keeps
//     granting beside its successor, unless min-replicas-to-write is 1 and the
//     server is Redis 7 or newer, or Valkey. Redis 6.2 does not apply that
//     setting to scripts. The store logs a warning if a server has replicas and
//     one of these two conditions does not hold.
//   - A key lives as long as its state differs from a fresh one. Quotas and the
//     slowest buckets have the longest-lived keys.
//   - No error, log line or printed [Options] contains a password.
//
// The way through the package: store.go and groups.go take claims, topology.go finds the
// server, batcher.go and exec.go send a batch of claims, encode.go and decode.go translate
// them, verify.go computes the steps again, and errors.go explains what a server answers.
//
// The servers' user needs the commands EVALSHA, EVAL, TIME and those that read and
// write keys below the prefix. With SCRIPT LOAD the scripts are loaded before the
// first call. With INFO the store warns of a server that evicts keys, and with
// CONFIG GET of risky settings. A Cluster also needs CLUSTER SLOTS, and claims that
// ask for replicas need WAIT.
package redisstore
