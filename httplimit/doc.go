// Package httplimit puts rate limits in front of net/http handlers.
//
// A program that defines its limits in code needs only [Limit]: five lines count
// requests by client address. A program that decides in another way, by a rule set for
// example, uses [Middleware]. The middleware identifies the client of a request
// ([Request], [Identity], [Clients]), asks a [Decider], and reports the decision
// ([Answer]) in headers and, on a denial, in a body.
//
// The package promises the following. The peer of the connection is the client, unless
// it is a trusted proxy that names another. Headers are set before the handler runs,
// and the handler gets the ResponseWriter unwrapped, so that streaming, WebSocket and
// all its optional interfaces work as without limits. A denied request never reaches
// the handler.
package httplimit
