// Package client combines the resilience packages into one [http.RoundTripper]: a
// deadline for the whole call, retries within a budget, a bulkhead, a circuit breaker, a
// limiter that makes attempts wait, and the transport.
//
// Use one [Transport], made by [New], for each dependency, so that a dependency which
// hangs or fails does not use up what calls to others need. Every part is optional.
// [Chain] alone is the chain that each attempt passes, for clients of other protocols;
// package grpcclient uses it.
//
// It promises:
//   - An attempt that a part refuses is not sent, not repeated and not counted as a
//     failure of the dependency.
//   - No place and no probe is lost, however a call ends, as long as the caller closes
//     the response's body, as net/http requires, or the context ends.
//   - The result is that of the last attempt, or a [*RefusedError] that names the part
//     which refused and the result of the attempt before.
package client
