// Package bulkhead bounds how many calls to one dependency run at once, so that a
// dependency which hangs uses up its own places and not those of others.
//
// Use one [Bulkhead] for each dependency that can hang ([New]), or a [Set] for
// dependencies with names ([NewSet]). Pass the call to [Do], or take a place with
// [Bulkhead.Acquire] and release it yourself. A caller that finds no free place waits in
// a queue of bounded length, for a bounded time.
//
// It promises:
//   - At most Limit calls hold a place.
//   - Waiting callers get places in the order in which they came.
//   - No place is lost when a caller gives up, panics or releases twice.
//   - A caller that finds the queue full is refused at once.
//
// It has no goroutine of its own.
package bulkhead
