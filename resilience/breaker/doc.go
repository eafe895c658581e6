// Package breaker is a circuit breaker: it stops calling what keeps failing,
// and finds out, by a few calls, when that works again.
//
// Use it around calls to anything that can be down, slow or overloaded. Ask
// [Breaker.Begin] before each call and tell the [Call] how it ended, or hand
// the call to [Breaker.Do]. What counts as a failure is for the caller to say.
//
// It opens by failures in a row, by the share of failures and by the share of
// slow calls, over a window of time or of calls ([Options]).
//
// It promises that a closed breaker costs less than a network call by three
// orders of magnitude and allocates nothing, that results count in the window
// exactly once however many goroutines report them, that a result never
// counts after the state in which its call began has ended, and that no more
// than the given number of probes are let through half-open in the time that
// the breaker was open. It has no goroutine and no timer: time passes for it
// when it is asked. Most of its cost is the system's clock, read once a call at
// most, and twice where calls can be slow, unless they are many and none is;
// [CoarseClock] is a cheaper one.
package breaker
