// Package client puts the parts of resilience together into one
// [http.RoundTripper]: a deadline for the whole call, retries within a budget,
// a bulkhead, a breaker, a limiter that waits its turn, and the transport.
//
// Use one [Transport] for each dependency: what hangs or fails there must not
// use up what calls to others need. Every part can be left out. [Parts] alone
// is what each attempt passes, for clients of other protocols; package
// grpcclient is one.
//
// It promises that an attempt which a part refuses is not sent, not repeated
// and not held against the dependency; that no place and no probe is lost
// however a call ends, as long as the caller closes the response's body, as
// net/http asks, or the context ends; and that what is returned is what the
// last attempt returned, or a [*RefusedError] that says which part refused and
// what came before.
package client
