// Package retry repeats what failed, after a wait that grows, and only where
// that helps.
//
// Use [Do] around any call, or [Transport] in an http.Client. A [Policy] says
// how often, for how long and after which waits; [Backoff] alone is its
// arithmetic.
//
// It promises that it never sleeps past the context's deadline nor for a
// retry that its budget refuses: it then returns at once what the last
// attempt returned, as it was. A server that says when to come back
// (Retry-After, RateLimit, gRPC's pushback) is never asked earlier. Over HTTP
// it repeats only what does no harm when repeated, and sends each body whole
// or not again.
package retry
