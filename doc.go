// Package stint limits how often something may happen.
//
// A [Limit] says what is allowed ("100 a minute, burst 20"). A [Store] keeps
// what each key has used and decides claims on it, each in one atomic step. A
// [Limiter] joins the two for the common case: one kind of request, one or
// more limits, one answer.
//
// Use it in a Go program that must protect something by itself with the
// memory store of [NewMemory], or as the common language of the stores,
// middleware and servers in the folders below.
//
// It promises exact answers: decisions equal rational arithmetic on the
// definitions of each [Algorithm], to the microsecond; a denied request
// changes nothing; waiting exactly [Decision.RetryAfter] succeeds, and one
// microsecond less fails; claims decided together are charged all or none.
//
// Time is counted in whole microseconds since the Unix epoch.
package stint
