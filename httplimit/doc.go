// Package httplimit puts rate limits in front of net/http handlers.
//
// [Limit] is all that a program with a limit of its own needs: five lines,
// and requests are counted by client address. [Middleware] is for whoever
// decides in another way, by a rule set for example: it reads who a request
// is from ([Request], [Identity], [Clients]), asks a [Decider], and tells the
// client what was decided ([Answer]) in headers and, on a denial, a body.
//
// It promises that the connection says who a client is unless a trusted proxy
// speaks; that headers are set before the handler runs and the
// ResponseWriter is passed on as it came, so that streaming, WebSocket and
// every optional interface of it work as without limits; and that a denied
// request never reaches the handler.
package httplimit
