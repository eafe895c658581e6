// Package guard keeps a service answering while its store does not.
//
// Use it around a [stint.Store] that is reached over a network: [New] wraps
// that store in one that gives every call a deadline, stops calling a server
// that fails (one circuit breaker for each, see [Sharded]), finds out in the
// background when it works again, and answers meanwhile as each claim's
// [stint.Policy] says:
//
//   - [stint.FailOpen]: allowed, and nothing is counted.
//   - [stint.FailClosed]: denied; RetryAfter is the time to the next probe.
//   - [stint.FailLocal]: decided in memory, under this node's share of the
//     limit or under [stint.Claim.Local].
//
// A group is denied when any of its claims is closed, else it is what its
// local claims say, else it is allowed. A shadow group follows the group that
// it observes: it is not charged where that was not admitted, and not asked of
// the store where that was not. Such decisions are Degraded, and grant nothing
// extra.
//
// A peek is answered like any other claim: it says what a check would meet. A
// give-back is local where its claim is; under the other policies nobody can
// give to a store that is not there, so it is an error, and so is a reset
// ([stint.Forget]) under every policy. What was taken then refills as time
// passes. A claim that is wrong is an error as ever.
//
// It promises that no call takes longer than its deadline if the store honours
// its context; that while a breaker is open a check takes less than a
// microsecond of work and never reaches the store; that no check is ever used
// as a probe; that a caller's mistake never counts against the store, nor its
// impatience, unless the store had been slow by then; and that failures together
// admit a share once: the local state lives on after a recovery until nothing in
// it counts any more, and the next failure continues it. It starts without its
// store, and logs changes of state, never single requests.
//
// What a frozen server's kernel already holds still runs when it thaws: at most
// the calls sent before the breaker opened, which are those of one deadline,
// and of those who asked again before enough of these had failed.
package guard
