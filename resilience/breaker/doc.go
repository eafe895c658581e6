// Package breaker is a circuit breaker. It refuses calls to a dependency that keeps
// failing, and after a while lets a few probe calls through to find out whether the
// dependency works again.
//
// Use a [Breaker], made by [New], around calls to anything that can be down, slow or
// overloaded. Call [Breaker.Begin] before each call and end the [Call] that it returns,
// or pass the call to [Do]. The caller decides what counts as a failure.
//
// The breaker opens on consecutive failures, on the share of failures or on the share of
// slow calls, over a window of time or of calls ([Options]).
//
// It promises:
//   - A call through a closed breaker costs about a thousandth of a network call and
//     allocates nothing.
//   - Each result counts in the window exactly once, however many goroutines report
//     results.
//   - A result is discarded if the breaker changed its state after the call began.
//   - While half-open, it lets at most Options.Probes probes through in each period as
//     long as the breaker was open.
//
// A breaker has no goroutine and no timer; it reads the clock when a method is called.
// Most of its cost is that read: at most one per call, or two where SlowAfter is set.
// Under high load with no slow calls it reads less often. A [CoarseClock] is
// cheaper to read.
package breaker
