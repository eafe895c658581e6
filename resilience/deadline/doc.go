// Package deadline carries the deadline of a request from service to service, so that no
// service works on a request whose caller has given up.
//
// Put [Middleware] around the handlers of a server and [Transport] into its http.Clients.
// A request then arrives with the time that its caller has left. The handler's context
// ends when that time is over, and the handler's own calls carry the time that is left by
// then. In gRPC, contexts already do this; both sides of this package understand gRPC's
// header. [Timeouts] bound connections and requests that have no deadline.
//
// It promises:
//   - A hop is never sent more time than its caller has when the request is handed on.
//   - A request with no time left is neither handed on nor begun.
//   - The context of a handler ends at its deadline, and when its client is gone.
//
// The time to connect and to send is not subtracted; only Reserve accounts for it. A
// handler that neither heeds its context nor reads or writes continues after the
// deadline.
//
// On the wire, the deadline is the time left in whole milliseconds, rounded down, and not
// a moment, so the clocks of two machines need not agree.
package deadline
