// Package adaptive sheds load. It admits as many requests as the server can answer well
// and refuses the others at once, while that is cheap. It measures the load instead of
// relying on a fixed number.
//
// Use a [Concurrency], made by [New], in front of a server, with [AIMD] or [Gradient],
// which measure latency, or [CPU], which measures the machine's load. Use a [Throttle],
// made by [NewThrottle], in the clients of a server that refuses requests. Both are a
// [Gate]: [Middleware] puts one before an HTTP handler, [Transport] into an http.Client,
// and [Do] around any call.
//
// It promises:
//   - A gate never waits.
//   - No place is lost when a handler panics or a client leaves.
//   - The limit stays between Min and Max, whatever the algorithm returns.
//   - Calls that tell nothing about the load, because their caller gave up, do not move
//     the limit.
//
// A gate has no goroutine and no timer; it reads the clock when a method is called.
package adaptive
