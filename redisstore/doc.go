// Package redisstore is a [stint.Store] in Redis or Valkey: all processes that
// name the same servers and the same prefix share one set of limits.
//
// Use it when more than one process limits the same callers. It speaks to a
// single server, to a Cluster and to the master that a Sentinel set names, all
// of version 6.2 or newer. Put [github.com/stintdev/stint/guard.Store] around
// it, which decides while the servers fail; without it their failures are
// errors of the calls.
//
// It promises:
//
//   - The decisions are those of package stint, to the microsecond. Each call is
//     one atomic script, at the server's own time, so that clocks of processes
//     do not matter. Many checks that wait at once travel as one.
//   - On a Cluster a group whose keys are of several slots is taken slot by slot,
//     and given back where it was taken when one slot denies it. Nobody gets more
//     than a limit by that. Until it is given back, for up to one round trip,
//     others may be denied by what it took; what a key would have refilled in
//     that time is lost to it. A part whose outcome is unknown keeps its charge,
//     and so does a leaky bucket, or what the group itself gives back, when
//     another caller took what was left between asking and taking. Keys of one
//     first part, see [stint.JoinKey], are always of one slot.
//   - A server holds at most two calls of 256 claims each that it has not
//     answered (of one group, when that has more), and as many for each number
//     of replicas that claims ask for, until Options.Timeout is over. A check
//     whose context ends while it waits is not sent.
//   - A call that may have run is never repeated. Its error has CodeTimeout or
//     CodeCanceled; any other error means that nothing was charged, but for
//     three kinds. "replicas": the charge stands, at the master and at those
//     replicas that have it. "script" and "garbled": the script failed on its
//     way, or this program does not understand its reply; both are bugs, or
//     the work of two versions on one store.
//   - [New] needs no server, and what was lost is found again by itself: a
//     restarted server, a promoted replica, a slot that moved.
//   - The laws are those of one store. A master that is cut off goes on granting
//     beside its successor, unless min-replicas-to-write is 1 and the server is
//     Redis 7 or newer, or Valkey: Redis 6.2 does not apply it to scripts. [New]
//     has a warning logged where there are replicas and one of both is missing.
//   - A key lives as long as its state says more than a fresh one. The longest
//     are those of quotas and of the slowest buckets.
//   - No password is in an error, in a log line, or in printed [Options].
//
// A user of the servers needs the commands EVALSHA, EVAL, TIME and those that
// read and write keys below the prefix; with SCRIPT LOAD and INFO scripts are
// there before the first call, and a server that evicts keys is warned of; with
// CONFIG GET settings are, too. A Cluster needs CLUSTER SLOTS too, and claims that ask for replicas WAIT.
package redisstore
