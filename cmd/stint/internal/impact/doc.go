// Package impact estimates what a change of the rules would do to the callers
// of the last minutes.
//
// A [Sample] observes every decision and keeps a bounded number of them.
// [Sample.Replay] decides the kept requests again under other rules. Use it
// before rules are published: a mistake that no parser can detect, such as a
// limit that lacks a zero, shows in the callers that would be denied.
//
// A request that is not kept costs one hash and no allocation. Sampling is by
// caller: every request of a kept caller is kept while the sample has room, so
// the rates of kept callers are true. Nodes with the same secret keep the same
// callers, and [Sample.Replay] merges their samples, which travel only sealed. The
// sample is only in memory, and results shorten keys.
package impact
