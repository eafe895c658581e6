// Package guard keeps a service answering while its store does not.
//
// Use it around a [stint.Store] that is reached over a network. [New] wraps
// that store in a Store that does three things:
//
//   - It gives every call a deadline.
//   - It has one circuit breaker for each server (see package storekit), and sends no
//     calls to a server whose breaker is open.
//   - It probes that server in the background until the server works again.
//
// While the store gives no answer, each claim's [stint.Policy] decides:
//
//   - [stint.FailOpen]: allowed; nothing is counted.
//   - [stint.FailClosed]: denied; RetryAfter is the time to the next probe.
//   - [stint.FailLocal]: decided in memory, under this node's share of the
//     limit or under [stint.Claim.Local].
//   - [stint.FailLastKnown]: decided in memory, under this node's share of the
//     limit, and from at most this node's part of what the store last said remains
//     of the key. A key of which the node knows nothing has the whole share.
//
// A group is denied if any of its claims is closed. Otherwise its local and last-known
// claims decide it together. A group of open claims alone is allowed. A shadow follows the group
// that it observes: it is charged only if that group was admitted, and sent to the
// store only if that group is. A dry group and its shadows are decided locally
// without a charge. All these decisions are Degraded, and they grant nothing extra.
//
// A peek is answered like any other claim: it shows the answer that a check would
// get. A refund (a cost below 0) is local under FailLocal and FailLastKnown, and an error
// under the other policies, because only the store can take it. A reset ([stint.Forget]) is
// an error under every policy. What a refund or a reset would have returned
// refills as time passes. An invalid claim is an error, as in every store.
//
// The package promises:
//
//   - No call takes longer than its deadline, if the store honours its context.
//   - While a breaker is open, a check takes less than a microsecond of work and
//     never reaches the store.
//   - No check is ever used as a probe.
//   - A caller's mistake never counts against the store. A caller that gives up
//     counts against it only if the call was slow by then.
//   - Several failures in a row together admit one local share. The local state
//     survives a recovery until nothing in it counts any more, and the next
//     failure continues from it.
//   - The Store starts while the store that it guards is unreachable.
//   - It logs changes of state, never single requests. While too few replicas confirm
//     charges, it logs their number once a minute.
//
// The way through the package: store.go asks the breaker and calls the store, groups.go
// does the same for groups, classify.go says what an error means, degrade.go and local.go
// decide without the store, last_known.go learns from the store's answers, and
// recovery.go probes a failing server.
//
// When a frozen server thaws, it still runs the calls that its kernel holds.
// These are at most the calls sent before the breaker opened: the calls of one
// deadline, and those that callers repeated before enough calls had failed.
package guard
