// Package adaptive sheds load: it lets in as many requests as can be answered
// well, by what it sees and not by a number that somebody chose, and refuses
// the others at once, while that is cheap.
//
// Use a [Concurrency] in front of a server, with [AIMD] or [Gradient], which
// go by latency, or [CPU], which goes by the machine; and a [Throttle] in the
// clients of a server that refuses. Both are a [Gate]: [Middleware] has one
// guard handlers, [Transport] an http.Client.
//
// It promises that a gate never waits, that no place is lost when a handler
// panics or a client leaves, that the limit stays between Min and Max whatever
// the algorithm says, and that calls which tell nothing of the load (their
// caller gave up) move no limit. A gate has no goroutine and no timer: time
// passes for it when it is asked.
package adaptive
