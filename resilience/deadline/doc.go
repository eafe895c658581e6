// Package deadline carries the deadline of a request from service to service,
// so that nobody works on what nobody waits for any more.
//
// Put [Middleware] around the handlers of a server and [Transport] into its
// http.Clients. A request then arrives with the time that its caller has left;
// the handler's context ends with it, and what it calls in turn is told what
// is still left by then. Over gRPC contexts do this by themselves, and both
// sides here understand its header. [Timeouts] are the other half: what bounds
// each connection and request where no deadline does.
//
// It promises that a hop is never told of more time than its caller has when
// the request is handed on, that none is handed on or begun with no time left,
// and that the context of a handler ends at its deadline and when its client is
// gone. What it takes to connect and to send comes after, and only Reserve
// accounts for it. What a handler does that heeds neither its context nor reads
// or writes goes on.
//
// On the wire, the deadline is the time left in whole milliseconds, rounded
// down, not a moment: the clocks of two machines need not agree.
package deadline
