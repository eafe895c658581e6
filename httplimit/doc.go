// Package httplimit puts rate limits in front of net/http handlers, and of frameworks that
// are built on them.
//
// A program that defines its limits in code needs only [Limit]: five lines count requests
// by client address, and [Options] says everything else. A program that decides in another
// way, by a rule set for example, gives its own [Decider] to [New]. The [Middleware]
// identifies the client of a request ([Request], [Identity], [Clients]), asks the decider,
// and reports the decision ([Answer]) in headers and, on a denial, in a body.
//
// A Middleware has three forms. [Middleware.Wrap] is for net/http and routers such as chi.
// [Middleware.Admit] is for frameworks with handlers of their own, such as gin and echo.
// [Middleware.Decide] writes nothing, and is for servers whose responses are no
// [http.ResponseWriter].
//
// The package promises the following. The peer of the connection is the client, unless
// it is a trusted proxy that names another. Headers are set before the handler runs,
// and the handler gets the ResponseWriter unwrapped, so that streaming, WebSocket and
// all its optional interfaces work as without limits. A denied request never reaches
// the handler, unless a hook of the program lets it pass. No response names a key.
package httplimit
