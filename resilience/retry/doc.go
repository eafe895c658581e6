// Package retry repeats calls that failed, after growing waits, and only where a retry
// can help.
//
// Use [Do] around any call, or [Transport] in an http.Client. A [Policy], made by
// [New], says how often, for how long and after which waits to retry; [Backoff] alone
// computes the waits.
//
// It promises:
//   - It never sleeps past the context's deadline, nor for a retry that its budget
//     refuses. It then returns at once the unchanged result of the last attempt.
//   - It never retries before the time that a server asks for (Retry-After, RateLimit,
//     gRPC's pushback).
//   - Over HTTP it repeats only requests that are safe to repeat, and sends each body
//     whole or not again.
package retry
