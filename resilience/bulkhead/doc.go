// Package bulkhead bounds how many calls to one dependency run at once, so
// that one which hangs takes its own places, not those of everyone.
//
// Use one [Bulkhead] for each thing that can hang, or a [Set] where they have
// names. Hand the call to [Bulkhead.Do], or take a place by
// [Bulkhead.Acquire] and release it yourself. Who finds no place waits in a
// queue of bounded length, for a bounded time.
//
// It promises that no more calls than Limit hold a place, that who waits gets
// a place in the order of asking, that no place is lost when a caller gives
// up, panics or releases twice, and that who finds the queue full is refused at
// once. It has no goroutine of its own.
package bulkhead
