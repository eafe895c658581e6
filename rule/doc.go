// Package rule parses rule files and decides requests by them.
//
// A rule states which requests it matches, which identity it counts them under,
// which limits apply, and what happens when a limit is exceeded or the store
// fails. [Parse] and [Load] turn rule files into a [Set]. They return either a
// whole set or an error that lists every mistake. [Set.Decide] reads from a
// request only the attributes that its candidate rules need, builds the claims
// of every matching rule, and takes them from a [stint.Store] as one atomic
// group.
//
// Use this package where operators write the limits. A program that knows its
// own limits needs only a [stint.Limiter].
//
// A Set is immutable and safe for concurrent use. Two different identities
// never share a key. The cost of a decision depends on the number of rules that
// could match the request, not on the number of rules in the set.
package rule
